#pragma once
// Drawn faces in CelebA's layout.

#include <string>

namespace eg::test {

/// `count` images of 20 x 26 pixels below folder/celeba/ (lists as CelebA's) with the attributes "Blond_Hair",
/// "Eyeglasses" and "Smiling", each drawn and true of about half of them. Every fourth is to test, every eighth to
/// validate.
void write_faces(const std::string& folder, int count);

} // namespace eg::test
