#pragma once
// Keeps arrays on the emulated device, and runs a function under every schedule.

#include "core/cuda/emulator/emulator.h"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <vector>

namespace eg::test {

/// An array on the device. At first NaN, or a copy of a host array.
template <class T> class DeviceArray {
public:
  explicit DeviceArray(std::size_t count)
      : data_(static_cast<T*>(emulator::device_malloc(count * sizeof(T)))), count_(count) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    emulator::copy_to_device(data_, values.data(), count_ * sizeof(T));
  }
  ~DeviceArray() { emulator::device_free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    emulator::copy_from_device(values.data(), data_, count_ * sizeof(T));
    return values;
  }

private:
  T* data_;
  std::size_t count_;
};

inline std::vector<float> normal(std::size_t count, std::mt19937_64& generator, double scale = 1, double mean = 0) {
  std::normal_distribution<double> distribution(mean, scale);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(distribution(generator));
  return values;
}

inline int between(int low, int high, std::mt19937_64& generator) {
  return std::uniform_int_distribution<int>(low, high)(generator);
}

/// The largest difference, relative to the largest wanted value; infinite where a value is NaN.
inline double error(const std::vector<float>& got, const std::vector<double>& want) {
  double worst = 0, size = 1e-30;
  if (got.size() != want.size()) return INFINITY;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    if (!(difference < 1e30)) return INFINITY;
    worst = std::max(worst, difference);
    size = std::max(size, std::abs(want[i]));
  }
  return worst / size;
}

template <class T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// What f() gives under each schedule; the first is ascending.
template <class F> auto under_all_schedules(F f) {
  using emulator::Order;
  std::vector<decltype(f())> results;
  for (const emulator::Schedule& schedule : {emulator::Schedule{Order::ascending, 1},
                                             {Order::descending, 1},
                                             {Order::random, 1},
                                             {Order::random, 2},
                                             {Order::interleaved, 1}}) {
    emulator::set_schedule(schedule);
    results.push_back(f());
  }
  emulator::set_schedule({});
  return results;
}

/// f() under every schedule, which must give the same bits.
template <class F> auto on_all_schedules(F f) {
  const auto results = under_all_schedules(f);
  for (const auto& other : results) CHECK(same_bits(results.front(), other));
  return results.front();
}

} // namespace eg::test
