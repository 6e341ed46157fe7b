#include "permute/key.h"

#include "core/base/file_descriptor.h"
#include "permute/digest.h"
#include "permute/file_errors.h"
#include "permute/key_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <numeric>
#include <sodium.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace eg::permute {
namespace {

constexpr std::size_t key_bytes = 32;
constexpr std::size_t tag_bytes = 32;
constexpr std::size_t version_at = key_file_magic.size();
// magic, version, reserved zeros; then the key; then the label; then BLAKE2b keyed with the key over everything before
constexpr auto header = [] {
  std::array<unsigned char, version_at + 4> bytes{};
  std::copy(key_file_magic.begin(), key_file_magic.end(), bytes.begin());
  bytes[version_at] = 1;
  return bytes;
}();
constexpr std::size_t bare_bytes = header.size() + key_bytes + tag_bytes; // without a label
constexpr std::size_t most_label_bytes = std::size_t{1} << 20;

struct FreeSecret {
  void operator()(unsigned char* bytes) const { sodium_free(bytes); }
};
using SecretBytes = std::unique_ptr<unsigned char, FreeSecret>;

SecretBytes secret_bytes(std::size_t size) {
  start_sodium("key");
  SecretBytes bytes(static_cast<unsigned char*>(sodium_malloc(size)));
  if (!bytes) throw MemoryError("key: the system gave no guarded memory");
  return bytes;
}

/// Keyed BLAKE2b over pieces that each carry their length, so that no two lists of pieces collide.
class Derivation {
public:
  Derivation(const unsigned char* key, std::string_view domain) {
    crypto_generichash_init(&state_, key, key_bytes, key_bytes);
    add(domain);
  }
  ~Derivation() { sodium_memzero(&state_, sizeof state_); }
  Derivation(const Derivation&) = delete;
  Derivation& operator=(const Derivation&) = delete;

  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  void add(std::uint64_t number) {
    std::array<unsigned char, 8> little{};
    for (std::size_t i = 0; i < 8; ++i) little[i] = static_cast<unsigned char>(number >> (8 * i));
    crypto_generichash_update(&state_, little.data(), little.size());
  }
  void finish(unsigned char* out) { crypto_generichash_final(&state_, out, key_bytes); }

private:
  crypto_generichash_state state_{};
};

/// Reads 64-bit words of a ChaCha20 key stream.
class ChaChaStream {
public:
  explicit ChaChaStream(SecretBytes seed) : seed_(std::move(seed)), block_(secret_bytes(block_bytes)) {}

  /// Uniform in [0, bound): words above the largest multiple of bound are drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t reject_below = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t word = next();
      if (word >= reject_below) return word % bound;
    }
  }

private:
  static constexpr std::size_t block_bytes = 1024;

  std::uint64_t next() {
    if (used_ == block_bytes) refill();
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < 8; ++i) word |= std::uint64_t{block_.get()[used_ + i]} << (8 * i);
    used_ += 8;
    return word;
  }
  void refill() {
    const std::array<unsigned char, crypto_stream_chacha20_NONCEBYTES> nonce{};
    std::memset(block_.get(), 0, block_bytes);
    crypto_stream_chacha20_xor_ic(block_.get(), block_.get(), block_bytes, nonce.data(), counter_, seed_.get());
    counter_ += block_bytes / 64;
    used_ = 0;
  }

  SecretBytes seed_, block_;
  std::uint64_t counter_ = 0;
  std::size_t used_ = block_bytes;
};

[[noreturn]] void fail_errno(const std::filesystem::path& path, std::string_view what) {
  fail(path, fmt::format("{}: {}", what, std::strerror(errno)));
}

void check_owner_and_mode(const std::filesystem::path& path, int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail_errno(path, "cannot look at the key file");
  if (!S_ISREG(info.st_mode)) fail(path, "a key must be a regular file");
  if (info.st_uid != ::geteuid()) fail(path, "the key file belongs to another user");
  if ((info.st_mode & 077) != 0)
    fail(path,
         fmt::format("the key file is open to others (mode {:04o}); chmod 600 it, or make a new key if others may "
                     "have read it",
                     static_cast<unsigned>(info.st_mode & 07777)));
}

std::size_t read_all(const std::filesystem::path& path, int fd, unsigned char* out, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, out + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "cannot read the key file");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

bool write_all(int fd, const unsigned char* bytes, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::write(fd, bytes + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return ::fsync(fd) == 0;
}

void authenticate(const unsigned char* key, const unsigned char* head, std::string_view label, unsigned char* tag) {
  Derivation mac(key, "equigrad key file");
  mac.add(std::string_view(reinterpret_cast<const char*>(head), header.size()));
  mac.add(std::string_view(reinterpret_cast<const char*>(key), key_bytes));
  if (!label.empty()) mac.add(label);
  mac.finish(tag);
}

} // namespace

void SecretKey::Wipe::operator()(unsigned char* bytes) const { sodium_free(bytes); }

SecretKey::SecretKey() : bytes_(secret_bytes(key_bytes).release()) {}

SecretKey SecretKey::generate(std::string label) { return generate(std::move(label), {}); }

SecretKey SecretKey::generate(std::string label, const std::function<void(std::span<std::byte>)>& agree) {
  if (label.size() > most_label_bytes)
    throw ValueError(fmt::format("key: a label of {} bytes; {} are the most", label.size(), most_label_bytes));
  SecretKey key;
  key.label_ = std::move(label);
  randombytes_buf(key.bytes_.get(), key_bytes);
  if (agree) agree(std::as_writable_bytes(std::span(key.bytes_.get(), key_bytes)));
  sodium_mprotect_readonly(key.bytes_.get());
  return key;
}

SecretKey SecretKey::load(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.get() < 0) fail_errno(path, "cannot open the key file");
  check_owner_and_mode(path, file.get());
  constexpr std::size_t most_bytes = bare_bytes + most_label_bytes;
  const SecretBytes content = secret_bytes(most_bytes + 1);
  const std::size_t size = read_all(path, file.get(), content.get(), most_bytes + 1);
  const unsigned char* head = content.get();
  if (size < header.size() || std::memcmp(head, header.data(), version_at) != 0) fail(path, "not an equigrad key file");
  if (head[version_at] != header[version_at])
    fail(path, fmt::format("key file version {} is not known; this program reads version {}", head[version_at],
                           header[version_at]));
  if (size < bare_bytes || size > most_bytes)
    fail(path, "the key file has the wrong size: it is truncated or was appended to");
  SecretKey key;
  std::memcpy(key.bytes_.get(), head + header.size(), key_bytes);
  key.label_.assign(reinterpret_cast<const char*>(head) + header.size() + key_bytes, size - bare_bytes);
  const SecretBytes tag = secret_bytes(tag_bytes);
  authenticate(key.bytes_.get(), head, key.label_, tag.get());
  if (sodium_memcmp(tag.get(), head + size - tag_bytes, tag_bytes) != 0)
    fail(path, "the key file is damaged, truncated or was appended to: its checksum does not fit");
  sodium_mprotect_readonly(key.bytes_.get());
  return key;
}

void SecretKey::save(const std::filesystem::path& path) const {
  const std::size_t size = bare_bytes + label_.size();
  const SecretBytes content = secret_bytes(size);
  std::copy(header.begin(), header.end(), content.get());
  std::memcpy(content.get() + header.size(), bytes_.get(), key_bytes);
  std::copy(label_.begin(), label_.end(), content.get() + header.size() + key_bytes);
  authenticate(bytes_.get(), content.get(), label_, content.get() + size - tag_bytes);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.get() < 0 && errno == EEXIST) fail(path, "exists already; a key is never overwritten");
  if (file.get() < 0) fail_errno(path, "cannot create the key file");
  if (::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0 || !write_all(file.get(), content.get(), size)) {
    const int cause = errno;
    ::unlink(path.c_str());
    errno = cause;
    fail_errno(path, "cannot write the key file");
  }
}

std::string SecretKey::fingerprint() const {
  std::array<unsigned char, key_bytes> digest{};
  Derivation(bytes_.get(), "equigrad key fingerprint").finish(digest.data());
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

bool SecretKey::same_as(const SecretKey& other) const {
  return sodium_memcmp(bytes_.get(), other.bytes_.get(), key_bytes) == 0;
}

Permutation SecretKey::draw(std::int64_t size, const KeySite& site, std::uint64_t attempt) const {
  if (size < 0) throw ValueError(fmt::format("key: size must not be negative: {}", size));
  SecretBytes seed = secret_bytes(key_bytes);
  Derivation derivation(bytes_.get(), "equigrad permutation");
  derivation.add(site.model);
  derivation.add(site.site);
  derivation.add(site.layer);
  derivation.add(site.sample);
  derivation.add(static_cast<std::uint64_t>(size));
  derivation.add(attempt);
  derivation.finish(seed.get());
  ChaChaStream stream(std::move(seed));
  std::vector<std::int64_t> gather(static_cast<std::size_t>(size));
  std::iota(gather.begin(), gather.end(), std::int64_t{0});
  fisher_yates(gather, [&](std::uint64_t bound) { return stream.below(bound); });
  return Permutation(std::move(gather));
}

Permutation SecretKey::permutation(std::int64_t size, const KeySite& site) const { return draw(size, site, 0); }

Permutation SecretKey::nonidentity_permutation(std::int64_t size, const KeySite& site) const {
  if (size < 2) throw ValueError(fmt::format("key: only the identity permutes {} element(s)", size));
  for (std::uint64_t attempt = 0;; ++attempt) {
    Permutation drawn = draw(size, site, attempt);
    if (!drawn.is_identity()) return drawn;
  }
}

PermutationSource SecretKey::source(std::string_view model) const {
  return [this, name = std::string(model)](std::int64_t size, std::string_view site) {
    if (size == 1) return Permutation::identity(1);
    return nonidentity_permutation(size, {name, site, 0, 0});
  };
}

Tensor SecretKey::row_permutations(std::int64_t samples, std::int64_t tokens, std::string_view model,
                                   std::uint64_t first_sample) const {
  Tensor rows = Tensor::empty({samples, tokens}, DType::i64, Device::cpu());
  auto* to = rows.mutable_data<std::int64_t>("row_permutations");
  for (std::int64_t s = 0; s < samples; ++s) {
    const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(s);
    const Permutation p = nonidentity_permutation(tokens, {model, "rows", 0, sample});
    to = std::copy(p.gather().begin(), p.gather().end(), to);
  }
  return rows;
}

} // namespace eg::permute
