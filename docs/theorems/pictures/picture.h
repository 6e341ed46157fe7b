#pragma once
// Draws small matrices as coloured cells, side by side, and measures which of them are equal.

#include <equigrad/equigrad.h>

#include <functional>
#include <string>
#include <vector>

namespace pictures {

using Labels = std::vector<std::string>;

/// Names of tokens: 1, 2, 3, ...
Labels numbers(std::int64_t count);
/// Names of features: a, b, c, ... from `first` on.
Labels letters(std::int64_t count, char first = 'a');

/// A matrix whose rows and columns have names, so that one sees where they went. Rows and columns of 1 need none.
struct Matrix {
  eg::Tensor values; ///< [rows, columns] or [columns], f64
  Labels rows, columns;
};

/// P_R X: values and names.
Matrix permute_rows(const Matrix& x, const eg::permute::Permutation& p);
/// X P_C.
Matrix permute_columns(const Matrix& x, const eg::permute::Permutation& p);

/// A picture: lines of matrices joined by arrows, and below them what was measured.
class Picture {
public:
  Picture(std::string id, std::string title) : id_(std::move(id)), title_(std::move(title)) {}

  /// Begins a line of matrices under a heading.
  Picture& line(std::string heading);
  /// Adds a matrix to the line, behind an arrow with the name of what was done to the one before it. Matrices of one
  /// `scale` share their colours.
  Picture& add(std::string name, Matrix matrix, std::string arrow = {}, int scale = 0);

  /// Says that two matrices are equal, to 1e-11 of the largest entry. Throws std::logic_error where they are not.
  Picture& equal(std::string what, const eg::Tensor& a, const eg::Tensor& b);
  /// Says that two matrices differ, by more than a hundredth of the largest entry. Throws where they do not.
  Picture& differ(std::string what, const eg::Tensor& a, const eg::Tensor& b);

  const std::string& id() const { return id_; }
  std::string svg() const;

private:
  struct Panel {
    std::string name, arrow;
    Matrix matrix;
    int scale;
  };
  struct Line {
    std::string heading;
    std::vector<Panel> panels;
  };
  struct Verdict {
    bool equal;
    std::string what;
  };
  double largest(int scale) const;

  std::string id_, title_;
  std::vector<Line> lines_;
  std::vector<Verdict> verdicts_;
};

/// Every picture of the theorem pages, in the order of their ids.
std::vector<Picture> all();

/// The scenes of a file: parts of blocks; whole blocks and models; masks, positions, and groups beyond permutations.
std::vector<Picture> of_parts();
std::vector<Picture> of_blocks();
std::vector<Picture> of_groups();

} // namespace pictures
