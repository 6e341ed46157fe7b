// A loader that a child of fork() takes over gives the parent's batches, and goes without waiting for the parent's
// workers.

#include "data/loader.h"
#include "support/in_child.h"
#include "support/message.h"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>

using namespace eg;
using namespace eg::data;
using eg::test::in_child;

namespace {

/// Twenty grey images of 4x4 pixels, no two alike: five batches an epoch.
ImageDataset twenty_images() {
  Bytes pixels;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 20; ++i) {
    labels.push_back(i % 2);
    for (int p = 0; p < 16; ++p) pixels.push_back(static_cast<std::uint8_t>((i * 11 + p * 7 + 1) % 256));
  }
  return {"twenty", 1, 4, 4, {"a", "b"}, std::move(pixels), std::move(labels)};
}

LoaderOptions options_with(int workers, int prefetch = 3) {
  LoaderOptions options;
  options.batch_size = 4;
  options.seed = 9;
  options.augmentation = {.crop_padding = 2, .horizontal_flip = true};
  options.workers = workers;
  options.prefetch = prefetch;
  return options;
}

bool same(const Batch& a, const Batch& b) {
  return a.epoch == b.epoch && a.batch == b.batch && a.indices == b.indices && same_bits(a.images, b.images) &&
         same_bits(a.labels, b.labels);
}

/// Whether next() gives `count` batches from (epoch, batch) on, with the bits of a loader without workers.
bool gives(Loader& loader, std::int64_t epoch, std::int64_t batch, int count) {
  Loader alone(twenty_images(), options_with(0));
  alone.seek(epoch, batch);
  for (int i = 0; i < count; ++i)
    if (!same(loader.next(), alone.next())) return false;
  return true;
}

/// By then the workers have made what they may and wait, so that the child inherits a condition variable in use.
void let_workers_wait() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

/// Reads a loader until it goes.
class Reader {
public:
  explicit Reader(Loader& loader)
      : thread_([this, &loader] {
          while (!stop_) loader.next();
        }) {}
  ~Reader() {
    stop_ = true;
    thread_.join();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// The size of the stacks that threads are given.
std::size_t default_stack() {
  pthread_attr_t attributes;
  ::pthread_getattr_default_np(&attributes);
  std::size_t bytes = 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return bytes;
}

void set_default_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  ::pthread_getattr_default_np(&attributes);
  ::pthread_attr_setstacksize(&attributes, bytes);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

} // namespace

TEST_CASE("loader: it goes in a child of fork(), which has none of its workers") {
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    auto loader = std::make_unique<Loader>(twenty_images(), options_with(workers));
    loader->next();
    let_workers_wait();
    CHECK(in_child([&] {
            loader.reset();
            return 0;
          }) == 0);
    CHECK(gives(*loader, 0, 1, 12)); // the parent's is as it was
  }
}

TEST_CASE("loader: a child of fork() seeks in it and makes single batches") {
  auto loader = std::make_unique<Loader>(twenty_images(), options_with(2));
  loader->next();
  const Batch expected = loader->batch(3, 1);
  let_workers_wait();
  CHECK(in_child([&] {
          loader->seek(2, 1);
          const bool right = same(loader->batch(3, 1), expected);
          loader.reset();
          return right ? 0 : 1;
        }) == 0);
}

// ThreadSanitizer ends children of fork() that start threads.
#if !defined(__SANITIZE_THREAD__)

TEST_CASE("loader: in a child of fork() next() goes on where the parent stood, with the same bits") {
  for (const int workers : {0, 1, 3})
    for (const int prefetch : {1, 4}) {
      CAPTURE(workers);
      CAPTURE(prefetch);
      auto loader = std::make_unique<Loader>(twenty_images(), options_with(workers, prefetch));
      CHECK(gives(*loader, 0, 0, 3));
      let_workers_wait();
      CHECK(in_child([&] {
              if (!gives(*loader, 0, 3, 9)) return 1;
              loader->seek(1, 2);
              if (!gives(*loader, 1, 2, 9)) return 2;
              if (test::children_may_hang) { // the child's workers may be in the allocator
                loader.reset();
                return 0;
              }
              const int grandchild = in_child([&] { // the loader stands at (3, 1), with workers of the child's
                if (!gives(*loader, 3, 1, 7)) return 3;
                loader.reset();
                return 0;
              });
              loader.reset();
              return grandchild;
            }) == 0);
      CHECK(gives(*loader, 0, 3, 9));
    }
}

TEST_CASE("loader: children of fork() read and end it, whatever the parent's threads were doing with it" *
          doctest::skip(test::children_may_hang)) {
  auto loader = std::make_unique<Loader>(twenty_images(), options_with(2));
  const Loader alone(twenty_images(), options_with(0));
  int failed = 0;
  {
    const Reader reader(*loader);
    for (int i = 0; i < 200 && failed == 0; ++i)
      failed = in_child([&] {
        const Batch first = loader->next();
        if (!same(first, alone.batch(first.epoch, first.batch))) return 1;
        if (!gives(*loader, first.epoch + (first.batch + 1) / 5, (first.batch + 1) % 5, 6)) return 2;
        loader.reset();
        return 0;
      });
  }
  CHECK(failed == 0);
}

TEST_CASE("loader: threads of a child of fork() share the workers that the first of them starts") {
  auto loader = std::make_unique<Loader>(twenty_images(), options_with(2));
  loader->next();
  let_workers_wait();
  CHECK(in_child([&] {
          {
            const Reader one(*loader);
            const Reader two(*loader);
            for (int i = 0; i < 50; ++i) loader->next();
          }
          loader->seek(1, 0);
          const bool right = gives(*loader, 1, 0, 6);
          loader.reset();
          return right ? 0 : 1;
        }) == 0);
}

TEST_CASE("loader: a child of fork() to which the system gives no thread says so, and reads on when it does") {
  auto loader = std::make_unique<Loader>(twenty_images(), options_with(2));
  loader->next();
  let_workers_wait();
  CHECK(in_child([&] {
          const std::size_t before = default_stack();
          set_default_stack(std::size_t{1} << 52); // more than there are addresses
          const std::string said = test::message_of([&] { loader->next(); });
          set_default_stack(before);
          if (!said.starts_with("loader: the system gives 0 of 2 workers (")) return 1;
          const bool right = gives(*loader, 0, 1, 6);
          loader.reset();
          return right ? 0 : 2;
        }) == 0);
}

#endif
