// theorem_pictures FOLDER: writes the pictures of the theorem pages, FOLDER/ID.svg. Everything in them is computed
// here.

#include "picture.h"

#include <cstdio>
#include <exception>
#include <fstream>

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: theorem_pictures FOLDER\n");
    return 2;
  }
  try {
    for (const pictures::Picture& picture : pictures::all()) {
      std::ofstream file(std::string(arguments[1]) + "/" + picture.id() + ".svg", std::ios::binary);
      if (!(file << picture.svg())) throw std::runtime_error("cannot write " + picture.id() + ".svg");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "theorem_pictures: %s\n", error.what());
    return 1;
  }
  return 0;
}
