#pragma once
// Computes the privacy cost of differentially private training (DP-SGD) by Renyi differential privacy of the sampled
// Gaussian mechanism.

#include "core/random.h"

#include <cstdint>
#include <vector>

namespace eg::attacks {

/// Renyi differential privacy of one step that draws every sample with probability q and adds Normal(0, sigma^2) to a
/// sum of sensitivity 1 (adding or removing one sample):
///   eps(alpha) = log A_alpha / (alpha - 1),  A_alpha = E_{x ~ mu0} ((1 - q) + q mu1(x) / mu0(x))^alpha,
/// mu0 = Normal(0, sigma^2), mu1 = Normal(1, sigma^2). Whole orders: the binomial sum
/// A = sum_k C(alpha, k) (1 - q)^(alpha - k) q^k exp(k (k - 1) / (2 sigma^2)); others: the two series of complementary
/// error functions. Mironov, Talwar, Zhang, "Renyi differential privacy of the sampled Gaussian mechanism" (arXiv
/// 1908.10530), section 3.3. Throws ValueError unless 0 <= q <= 1, sigma > 0, alpha > 1.
double sampled_gaussian_rdp(double q, double sigma, double order);

struct PrivacySpent {
  double epsilon = 0.0;
  double order = 0.0; ///< at which it is least
};

/// Adds up what steps cost at many orders; what a training has spent is the least of them.
class RdpAccountant {
public:
  /// Orders 1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 4, ..., 64, 128, 256, 512 unless given.
  RdpAccountant();
  explicit RdpAccountant(std::vector<double> orders);
  /// `steps` steps of sampled_gaussian_rdp(q, sigma, order).
  void add(double q, double sigma, std::int64_t steps);
  /// The least epsilon such that all of it is (epsilon, delta)-differentially private: min over orders of
  /// eps(alpha) + log(1 / delta) / (alpha - 1). Mironov, "Renyi differential privacy" (arXiv 1702.07476),
  /// proposition 3. Throws ValueError unless 0 < delta < 1.
  PrivacySpent spent(double delta) const;

private:
  std::vector<double> orders_, rdp_;
};

/// The gradient of a DP-SGD step from the gradients of single samples, [B] + the parameter's shape each:
///   (1 / batch) (sum_i g_i / max(1, |g_i| / clip) + Normal(0, (sigma clip)^2)),
/// |g_i| the norm over all parameters. `batch` is the expected number of samples, which a drawn B may differ from.
/// Abadi et al., "Deep learning with differential privacy" (arXiv 1607.00133), algorithm 1. Throws ShapeError,
/// ValueError unless clip > 0, sigma >= 0, batch > 0.
std::vector<Tensor> private_gradient(const std::vector<Tensor>& per_sample, double clip, double sigma, double batch,
                                     RandomKey key);

/// Numbers below `count` of which each is drawn with probability q, from `key` alone.
std::vector<std::int64_t> poisson_sample(std::int64_t count, double q, RandomKey key);

} // namespace eg::attacks
