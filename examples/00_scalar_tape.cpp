// Reverse-mode differentiation of scalars in a hundred lines, from nothing: the idea that all of equigrad stands on.
//
// Every operation appends one entry to a list, the tape: which values it read, and the derivative of its result with
// respect to each of them. That list is already in an order in which every value comes after what it was made from, so
// walking it backwards once, multiplying and adding, gives the derivative of one result with respect to everything.
// A gradient is a returned value: nothing is stored in the variables and nothing has to be reset.

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

struct Value; // a number that some tape knows

class Tape {
public:
  Value variable(double value);
  /// result = f(a, b), with the slopes df/da and df/db at this point.
  Value record(double result, const Value& a, double slope_a, const Value& b, double slope_b);
  /// d y / d x for every x that was made on this tape, by position.
  std::vector<double> gradient(const Value& y) const;

private:
  struct Entry {
    std::size_t input[2];
    double slope[2];
  };
  std::vector<Entry> entries_;
};

struct Value {
  Tape* tape;
  std::size_t position; // of the entry that made it
  double value;
};

Value Tape::variable(double value) {
  // It depends on nothing: slopes of zero, and itself as harmless inputs.
  entries_.push_back({{entries_.size(), entries_.size()}, {0.0, 0.0}});
  return {this, entries_.size() - 1, value};
}

Value Tape::record(double result, const Value& a, double slope_a, const Value& b, double slope_b) {
  entries_.push_back({{a.position, b.position}, {slope_a, slope_b}});
  return {this, entries_.size() - 1, result};
}

std::vector<double> Tape::gradient(const Value& y) const {
  std::vector<double> adjoint(entries_.size(), 0.0);
  adjoint[y.position] = 1.0;
  for (std::size_t i = y.position + 1; i-- > 0;)
    for (int k = 0; k < 2; ++k) adjoint[entries_[i].input[k]] += adjoint[i] * entries_[i].slope[k]; // the chain rule
  return adjoint;
}

// The rules. Each is the derivative from the textbook, written beside the operation.
Value operator+(const Value& a, const Value& b) { return a.tape->record(a.value + b.value, a, 1.0, b, 1.0); }
Value operator-(const Value& a, const Value& b) { return a.tape->record(a.value - b.value, a, 1.0, b, -1.0); }
Value operator*(const Value& a, const Value& b) { return a.tape->record(a.value * b.value, a, b.value, b, a.value); }
Value tanh(const Value& a) {
  const double t = std::tanh(a.value);
  return a.tape->record(t, a, 1.0 - t * t, a, 0.0);
}

// XOR with three hidden neurons: weights of the hidden layer (2 each), its biases, output weights, output bias.
constexpr std::size_t hidden = 3;
constexpr std::size_t weights = 2 * hidden + hidden + hidden + 1;

Value predict(const std::vector<Value>& w, const Value& a, const Value& b) {
  Value y = w[weights - 1];
  for (std::size_t j = 0; j < hidden; ++j) {
    const Value neuron = tanh(w[2 * j] * a + w[2 * j + 1] * b + w[2 * hidden + j]);
    y = y + w[3 * hidden + j] * neuron;
  }
  return y;
}

double loss_and_gradient(const std::vector<double>& point, std::vector<double>& gradient) {
  Tape tape;
  std::vector<Value> w;
  for (const double value : point) w.push_back(tape.variable(value));
  Value loss = tape.variable(0.0);
  for (const double a : {0.0, 1.0})
    for (const double b : {0.0, 1.0}) {
      const Value error = predict(w, tape.variable(a), tape.variable(b)) - tape.variable(a == b ? 0.0 : 1.0);
      loss = loss + error * error;
    }
  const std::vector<double> all = tape.gradient(loss);
  for (std::size_t i = 0; i < weights; ++i) gradient[i] = all[w[i].position];
  return loss.value;
}

} // namespace

int main() {
  std::vector<double> w(weights), gradient(weights), ignored(weights);
  for (std::size_t i = 0; i < weights; ++i) w[i] = std::sin(static_cast<double>(3 * i + 1)); // any start will do

  // Never trust a derivative that was not compared with a difference quotient.
  loss_and_gradient(w, gradient);
  double worst = 0.0;
  for (std::size_t i = 0; i < weights; ++i) {
    std::vector<double> up = w, down = w;
    up[i] += 1e-6;
    down[i] -= 1e-6;
    const double quotient = (loss_and_gradient(up, ignored) - loss_and_gradient(down, ignored)) / 2e-6;
    worst = std::fmax(worst, std::fabs(quotient - gradient[i]));
  }
  std::printf("largest difference from the difference quotient: %.1e\n", worst);

  double loss = 0.0;
  for (int step = 0; step <= 2000; ++step) {
    loss = loss_and_gradient(w, gradient);
    if (step % 500 == 0) std::printf("step %4d  loss %.6f\n", step, loss);
    for (std::size_t i = 0; i < weights; ++i) w[i] -= 0.1 * gradient[i];
  }
  return worst < 1e-8 && loss < 1e-3 ? 0 : 1;
}
