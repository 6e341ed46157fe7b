#pragma once
// Derives secret permutations from a 32-byte master key. This is obfuscation, not encryption: a permutation hides which
// feature or token is which, not the values themselves, and anyone with the plain weights or pairs of plain and
// permuted data recovers it (docs/theory.md).

#include "permute/axes.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace eg::permute {

/// Where a secret permutation is used. Every field enters the derivation, so two sites never share a sequence.
struct KeySite {
  std::string_view model; ///< the model's name
  std::string_view site;  ///< "residual", "blocks.3.qk.head.1", "rows"
  std::uint64_t layer = 0;
  std::uint64_t sample = 0;
};

/// 32 secret bytes. They live in locked, guarded memory that is left out of core dumps and wiped at the end; the type
/// cannot be copied, printed or formatted, and no error message holds any of them.
///
/// Permutations drawn from it are ordinary values in ordinary memory: whoever holds those keeps them secret.
/// Permutation overwrites its entries when it is destroyed, but it is not locked, and index tensors made from it
/// (tensor(), row_permutations()) and weights moved by it are neither locked nor overwritten. Where that matters,
/// switch off swap and core dumps.
///
/// Derivation, all with libsodium: a 32-byte seed for a site is BLAKE2b keyed with the master key over a domain label,
/// the length-prefixed names and the numbers of the site, and the permutation's size; the seed drives a ChaCha20
/// stream; Fisher-Yates draws its indices from it by rejection, so every permutation is equally likely.
class SecretKey {
public:
  /// A fresh key from the system's random source. `label` says what the key is for; it is not secret, is stored in the
  /// file beside the key and is authenticated with it. Throws ValueError beyond 1 MiB.
  static SecretKey generate(std::string label = {});
  /// The same for processes that must have one key: `agree` replaces the bytes by those of one of them. Where it sends
  /// them over a network, whoever listens there has the key.
  static SecretKey generate(std::string label, const std::function<void(std::span<std::byte>)>& agree);
  /// Reads a key file. Throws FileError when it is missing, not a regular file, open to group or others, owned by
  /// another user, of another version, truncated, or changed since it was written.
  static SecretKey load(const std::filesystem::path& path);
  /// Writes a key file of mode 0600. Throws FileError when the path exists (nothing is overwritten) or cannot be
  /// written.
  void save(const std::filesystem::path& path) const;

  const std::string& label() const { return label_; }
  /// 16 hexadecimal digits that name the key without telling it; safe to print and to store beside a model.
  std::string fingerprint() const;
  /// Compares in constant time.
  bool same_as(const SecretKey& other) const;

  /// A uniform permutation for a site.
  Permutation permutation(std::int64_t size, const KeySite& site) const;
  /// The same, never the identity. size >= 2.
  Permutation nonidentity_permutation(std::int64_t size, const KeySite& site) const;
  /// Draws for BlocksKey::draw: site names become KeySite::site. The source refers to this key, which must outlive it.
  PermutationSource source(std::string_view model) const;
  /// One row permutation for each of `samples` samples, numbered from first_sample: i64 [samples, tokens].
  Tensor row_permutations(std::int64_t samples, std::int64_t tokens, std::string_view model,
                          std::uint64_t first_sample) const;

  SecretKey(SecretKey&&) noexcept = default;
  SecretKey& operator=(SecretKey&&) noexcept = default;
  SecretKey(const SecretKey&) = delete;
  SecretKey& operator=(const SecretKey&) = delete;
  ~SecretKey() = default;
  template <class Stream> friend Stream& operator<<(Stream&, const SecretKey&) = delete;

private:
  struct Wipe {
    void operator()(unsigned char* bytes) const;
  };
  SecretKey();
  Permutation draw(std::int64_t size, const KeySite& site, std::uint64_t attempt) const;

  std::unique_ptr<unsigned char, Wipe> bytes_;
  std::string label_;
};

} // namespace eg::permute
