#pragma once
// Lists the constants of the elementary functions, for vectors (core/simd/simd-inl.h) and for numbers
// (core/exact/elementary.cpp).

#include <cstdint>

namespace eg::simd {

template <class T> struct FloatFormat;
template <> struct FloatFormat<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr float rounder = 12582912.0F; // 1.5 * 2^23: adding it rounds to an integer in the low bits
  static constexpr float bias = 127.0F;
  static constexpr float ln2_high = 6.93145752e-1F; // ln 2 with 9 trailing zero bits, so that n * ln2_high is exact
  static constexpr float ln2_low = 1.42860677e-6F;
  static constexpr float exp_least = -104.0F; // exp is 0 below
  static constexpr float exp_most = 89.0F;    // and infinite above
  // (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, error 1.4e-9 (docs/numerics/coefficients.py)
  static constexpr float exp_tail[] = {0.50000000135F, 0.166666666817F, 0.0416664646F,
                                       0.00833331089F, 0.00139336859F,  0.000198910307F};
};
template <> struct FloatFormat<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double rounder = 6755399441055744.0; // 1.5 * 2^52
  static constexpr double bias = 1023.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01;
  static constexpr double ln2_low = 1.90821492927058770002e-10;
  static constexpr double exp_least = -746.0;
  static constexpr double exp_most = 710.0;
  // error 1.4e-18
  static constexpr double exp_tail[] = {0.5,
                                        0.1666666666666667101,
                                        0.04166666666666666977,
                                        0.008333333333326112053,
                                        0.001388888888888373183,
                                        0.0001984126987490125923,
                                        0.00002480158732560532278,
                                        2.755725529796964439e-6,
                                        2.755727357010213967e-7,
                                        2.510525953844849342e-8,
                                        2.091471734171637595e-9};
};

template <class T> struct LogFormat;
// log(1+f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2+f): the scheme and the coefficients of R are those of fdlibm's
// e_log.c and e_logf.c (Sun Microsystems, 1993).
template <> struct LogFormat<float> {
  static constexpr std::uint32_t one = 0x3F800000, root_half = 0x3F3504F3, mantissa = 0x007FFFFF;
  static constexpr std::uint32_t two_power = 0x4B000000; // 2^23: or-ing an integer in gives 2^23 + integer
  static constexpr float two_power_value = 8388608.0F;
  static constexpr float ln2_high = 6.9313812256e-01F, ln2_low = 9.0580006145e-06F;
  static constexpr float tail[] = {0.66666662693F, 0.40000972152F, 0.28498786688F, 0.24279078841F};
};
template <> struct LogFormat<double> {
  static constexpr std::uint64_t one = 0x3FF0000000000000, root_half = 0x3FE6A09E667F3BCD,
                                 mantissa = 0x000FFFFFFFFFFFFF;
  static constexpr std::uint64_t two_power = 0x4330000000000000;
  static constexpr double two_power_value = 4503599627370496.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double tail[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                    2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                    1.479819860511658591e-01};
};

// erfc(z) / 2 = exp(-z^2) t G(1 - t) with t = 1 / (1 + z/K): G is smooth on [0, 1], so one polynomial serves all z >= 0
// with a small relative error, and powers of 1 - t make it best near z = 0 (the mapping is that of Shepherd and
// Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36, 1981; the coefficients are this
// project's: docs/numerics/coefficients.py).
template <class T> struct NormalFormat;
template <> struct NormalFormat<float> {
  static constexpr double pole = 2.5;
  static constexpr float most = 14.5F; // exp(-most^2 / 2) is 0
  static constexpr float g[] = {0.500000001F,  -0.910474147F, 0.804059326F,    -0.233498482F,  -0.133514268F,
                                0.0616232933F, 0.0487026297F, 2.50143158e-06F, -0.0405540714F, 0.0165104368F};
};
template <> struct NormalFormat<double> {
  static constexpr double pole = 2.5;
  static constexpr double most = 38.7;
  static constexpr double g[] = {
      0.4999999999999999992,   -0.9104739588693897684,   0.8040520822610191569,   -0.2333967052138994767,
      -0.1341701507157366504,  0.06356986850470826448,   0.04746394557666262222,  -0.007865343948653884027,
      -0.0185136392320153095,  -0.004819004243051227215, 0.001934281831272858569, 0.01420058123249013069,
      -0.03575790054842856642, 0.1078837021515351745,    -0.2615191910621693286,  0.5015923674074328945,
      -0.7765140859343556648,  0.9559226255916266607,    -0.9203901414559285656,  0.6774123569075775507,
      -0.3661290576418895802,  0.1359523147950081881,    -0.0307905231803217378,  0.003193492497713754807};
};

// For results that are rounded to float: polynomials in z = x^2 unless it says otherwise, with errors below 2^-41,
// relative to the function (docs/numerics/coefficients.py).
struct RoundedFormat {
  // sin x / x and cos x on |x| <= pi/4
  static constexpr double sine[] = {0.99999999999999571,     -0.1666666666661656,   0.0083333333238592657,
                                    -0.00019841263288597897, 2.7555269853013613e-6, -2.4756411810365001e-8};
  static constexpr double cosine[] = {0.99999999999994424,    -0.49999999999349494,  0.041666666543666105,
                                      -0.0013888880381067264, 2.4798926107300663e-5, -2.717323911500379e-7};
  // atan x / x on |x| <= sqrt 2 - 1
  static constexpr double arctangent[] = {0.99999999999997312,  -0.33333333330794098,  0.19999999603629274,
                                          -0.14285690359433905, 0.11110383444826397,   -0.090783705880170592,
                                          0.075635447196721634, -0.058738970593169377, 0.030653006695358436};
  // erf x / x in z - 7.7225 on |x| <= 3.93, from where on erf x is rounded to 1
  static constexpr double error_function_most = 3.93, error_function_centre = 7.7225;
  static constexpr double error_function[] = {
      0.3598190481671238,     -0.0232644516448847,     0.002243242551621699,   -0.00023667673439378437,
      2.546894986888726e-05,  -2.6986623923590107e-06, 2.754075156606915e-07,  -2.669765151754867e-08,
      2.4388112485035473e-09, -2.0912546221444793e-10, 1.681195321375711e-11,  -1.2675142158570319e-12,
      8.97800077648511e-14,   -5.992651244460016e-15,  3.765740549838708e-16,  -2.2146504572484192e-17,
      1.2512775562144516e-18, -7.136144159000543e-20,  3.5812575729407024e-21, -1.2146720144596906e-22,
      5.9999875436737756e-24, -6.184310944530215e-25,  2.5184381011734696e-26};
  // 2^x in x on |x| <= 1/2
  static constexpr double power_of_two[] = {1.0000000000000135,     0.6931471805599462,     0.24022650695639042,
                                            0.05550410866465085,    0.009618129194245706,   0.0013333558200990725,
                                            0.00015403433518874316, 1.5252672778488214e-05, 1.325969832942568e-06,
                                            1.0205938848909299e-07};
  // 2 atanh x / x on |x| <= (sqrt 2 - 1) / (sqrt 2 + 1), error 2^-51: powers magnify that of a logarithm
  static constexpr double twice_atanh[] = {2.0000000000000004,  0.6666666666655258, 0.4000000006189895,
                                           0.28571415995431576, 0.2222343641775899, 0.18121872280784868,
                                           0.16838427979111062};
  // the same on |x| <= 1/3
  static constexpr double twice_atanh_third[] = {2.000000000000003,  0.6666666666618257,  0.4000000011581452,
                                                 0.2857141793475505, 0.22222709754719172, 0.18169333991893807,
                                                 0.1557070720148144, 0.11744977819559474, 0.18758019601047687};
};

} // namespace eg::simd
