# cmake -Droot= -P readme.cmake: the program that README.md shows is examples/01_first_gradient.cpp, which is built and
# run by the tests.
file(READ ${root}/README.md readme)
file(READ ${root}/examples/01_first_gradient.cpp example)
string(REGEX REPLACE "^//[^\n]*\n\n" "" example "${example}")
string(FIND "${readme}" "```cpp\n${example}```" where)
if(where EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/01_first_gradient.cpp as it is")
endif()
