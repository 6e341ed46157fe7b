// Multiplies panels of whole numbers of 8 bits, four terms an instruction. Included once for each set of instructions,
// inside a namespace and between the pragmas that name the set, behind a policy Quads:
//   Vector, Right, lanes         32-bit sums of as many columns; what a vector of right operands becomes
//   rows, vectors                of C in registers
//   zero(), load(words), right(vector), broadcast(word), store(vector, words)
//   add_products(sum, left, right)   sum + the four products in each lane, modulo 2^32
//   excess                       whether add_products takes the left operand for unsigned, 128 larger: then what that
//                                adds to a column is subtracted at the end, from add_products(sum, excess_of_left(),
//                                right)

template <class Q, int R, int V>
inline void block(std::int64_t steps, const Line* left, const Line* right, std::int64_t width, std::int32_t* sums) {
  typename Q::Vector sum[R][V], excess[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) excess[v] = Q::zero();
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[i][v] = Q::zero();
  for (std::int64_t p = 0; p < steps; ++p, left += tiles::side, right += width)
    for (int word = 0; word < 16; ++word) {
      typename Q::Right columns[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        columns[v] = Q::right(Q::load(right[word].words + v * Q::lanes));
        if constexpr (Q::excess) excess[v] = Q::add_products(excess[v], Q::excess_of_left(), columns[v]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const auto row = Q::broadcast(left[i].words[word]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[i][v] = Q::add_products(sum[i][v], row, columns[v]);
      }
    }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      if constexpr (Q::excess) sum[i][v] = Q::subtract(sum[i][v], excess[v]);
      Q::store(sum[i][v], sums + i * tiles::side + v * Q::lanes);
    }
}

/// Rows beyond the last whole block are zeros in the panel, and are computed as well where a block reaches them.
template <class Q>
inline void multiply_quads(std::int64_t steps, const Line* left, const Line* right, std::int64_t rows,
                           std::int64_t columns, std::int32_t* sums) {
  constexpr int R = Q::rows, V = Q::vectors;
  static_assert(tiles::side % R == 0 && tiles::most_rows % (V * Q::lanes) == 0);
  const std::int64_t width = columns > tiles::most_rows ? tiles::side : tiles::most_rows;
  for (std::int64_t j = 0; j < columns; j += V * Q::lanes) {
    // Sixteen columns are sixteen lines of a step, a word of each column in a line.
    const Line* const half = right + j / tiles::most_rows * tiles::most_rows;
    const auto* const from = reinterpret_cast<const Line*>(reinterpret_cast<const std::byte*>(half) +
                                                           j % tiles::most_rows * std::int64_t{sizeof(std::uint32_t)});
    for (std::int64_t i = 0; i < rows; i += R) block<Q, R, V>(steps, left + i, from, width, sums + i * tiles::side + j);
  }
}
