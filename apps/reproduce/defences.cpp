// CVPR Table 6 and Figure 7, paper 001 Tables 4 to 6: defences in split learning, and attacks on them.

#include "apps/reproduce/defended.h"
#include "apps/reproduce/experiments.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

namespace eg::reproduce {
namespace {

using attacks::Defence;
using attacks::Protection;

Protection noise_of(const Plan& plan) { return {Defence::noise, plan.number("noise")}; }
Protection blur_of(const Plan& plan) { return {Defence::blur, plan.number("blur_side")}; }

/// What the tables have in common.
void add_remarks(Outcome& o) {
  o.remarks.emplace_back("PSNR is the papers', with peak 1 for pictures in [-1, 1]; with the right peak, 2, each is "
                         "6.02 dB more. SSIM has the right range (the released code takes 1 here too)");
  o.remarks.emplace_back("F-SIM: |cosine| of features of a small convolutional network (three layers, 128 features) "
                         "trained on the same pictures from a seed of its own; the papers take InceptionResnetV1 and "
                         "ResNet18");
  o.remarks.emplace_back(
      "faces, where a plan asks for them, are drawn, with twelve of CelebA's attributes; without position "
      "embeddings and class token, as the papers' attacked features are: with positions the order of "
      "rows is found exactly (docs/privacy.md, positions)");
}

/// That rows in an unknown order cost the decoder SSIM.
Claim lowers_ssim(const DefendedTable& table, std::size_t plain, std::size_t shuffled, const std::string& number) {
  return {.what = fmt::format("{} minus {}: SSIM of the decoder, seeds' mean", table.rows()[plain].arm.name,
                              table.rows()[shuffled].arm.name),
          .value = table.mean(plain, number) - table.mean(shuffled, number),
          .bound = 0.05,
          .sense = Claim::Sense::at_least,
          .because = "the decoder must guess places"};
}

} // namespace

void defended_split(const Plan& plan, const RunContext& work, Outcome& o) {
  const Protection low{Defence::low_pass, plan.number("low_pass")}, batch{Defence::batch_shuffle, plan.number("kept")};
  const auto paper = [](const char* accuracy, const char* ssim, const char* psnr, const char* fsim) {
    return std::map<std::string, const char*>{
        {"accuracy", accuracy}, {"black.ssim", ssim}, {"black.psnr", psnr}, {"black.fsim", fsim}};
  };
  const DefendedTable table(
      plan, work,
      {{{.name = "SL"}, paper("91.9 %", "0.645", "16.25 dB", "0.933")},
       {{.name = "SL+rows", .rows = true}, {}},
       {{.name = "GN", .protection = noise_of(plan)}, paper("88.8 %", "0.457", "15.47 dB", "0.663")},
       {{.name = "GN+rows", .protection = noise_of(plan), .rows = true}, paper("88.8 %", "0.167", "8.07 dB", "0.187")},
       {{.name = "LP", .protection = low}, paper("90.1 %", "0.450", "14.71 dB", "0.614")},
       {{.name = "LP+rows", .protection = low, .rows = true}, paper("90.2 %", "0.110", "5.69 dB", "0.154")},
       {{.name = "BS", .protection = batch}, paper("90.8 %", "0.148", "8.18 dB", "0.176")},
       {{.name = "BS+rows", .protection = batch, .rows = true}, paper("91.1 %", "0.143", "7.61 dB", "0.167")}},
      {});
  table.write(o);
  for (const std::size_t plain : {0U, 4U}) o.claims.push_back(lowers_ssim(table, plain, plain + 1, "black.ssim"));
  add_remarks(o);
  o.remarks.push_back(fmt::format(
      "GN: deviation {} on pictures in [-1, 1]; LP: |f| <= {} cycles a picture, where the paper's radius 0.05 of 224 "
      "pixels is 11 cycles over 14 patches a side; BS: {} of a picture's patches stay, the others change places across "
      "the "
      "batch",
      plan.number("noise"), plan.number("low_pass"), plan.number("kept")));
  o.doubts.emplace_back("the paper's accuracies of a defence with and without rows differ by up to 0.3 points; by its "
                        "theorem they are one number, as ours are");
}

namespace {

/// A number of low_pass_radii's rows against the frequencies that pass, with rows in their order and permuted.
Graph radius_graph(const Plan& plan, const DefendedTable& table, const std::string& number, const std::string& label) {
  report::Chart chart{.title = "", .x_label = "frequencies that pass, cycles over the patches", .y_label = label};
  const std::int64_t cutoffs = plan.count("cutoffs");
  for (const bool shuffled : {false, true}) {
    report::Series line{.name = shuffled ? "rows permuted" : "rows in their order",
                        .dashed = shuffled, // the curves coincide where theory says so
                        .width = shuffled ? 2.0 : 4.0,
                        .dots = true};
    for (std::int64_t i = 0; i < cutoffs; ++i) {
      line.x.push_back(static_cast<double>((i + 1) * plan.count("cutoff_step")));
      line.y.push_back(table.mean(static_cast<std::size_t>(shuffled ? cutoffs + i : i), number));
    }
    chart.series.push_back(std::move(line));
  }
  return {std::move(chart), label + " against the radius of the low-pass filter, mean over the seeds"};
}

} // namespace

void low_pass_radii(const Plan& plan, const RunContext& work, Outcome& o) {
  std::vector<DefendedRow> rows;
  for (const bool shuffled : {false, true})
    for (std::int64_t cutoff = 1; cutoff <= plan.count("cutoffs"); ++cutoff) {
      const auto cycles = static_cast<double>(cutoff * plan.count("cutoff_step"));
      DefendedRow row{{.name = fmt::format("|f| <= {}{}", cycles, shuffled ? "+rows" : ""),
                       .protection = {Defence::low_pass, cycles},
                       .rows = shuffled},
                      {}};
      if (!shuffled && cutoff == 1)
        row.paper = {{"accuracy", "85.6 % (r 0.01)"},
                     {"black.ssim", "0.190"},
                     {"black.psnr", "7.95 dB"},
                     {"black.fsim", "0.196"}};
      rows.push_back(std::move(row));
    }
  const DefendedTable table(plan, work, std::move(rows), {});
  table.write(o);
  const std::size_t last = static_cast<std::size_t>(plan.count("cutoffs")) - 1;
  o.claims.push_back({.what = "SSIM of the decoder, most frequencies minus fewest",
                      .value = table.mean(last, "black.ssim") - table.mean(0, "black.ssim"),
                      .bound = 0.05,
                      .sense = Claim::Sense::at_least,
                      .because = "what is filtered out cannot come back"});
  o.graphs.push_back(radius_graph(plan, table, "accuracy", "accuracy on the tests, %"));
  o.graphs.push_back(radius_graph(plan, table, "black.ssim", "SSIM of what a decoder gets back"));
  add_remarks(o);
  o.remarks.emplace_back(
      "the paper's radii 0.01 to 0.05 of 224 pixels are 2 to 11 cycles over 14 patches a side; ours are cycles "
      "over the fewer patches of a smaller picture");
}

void attacks_in_inference(const Plan& plan, const RunContext& work, Outcome& o) {
  const auto paper = [](const char* accuracy, std::array<const char*, 3> black, std::array<const char*, 3> white) {
    return std::map<std::string, const char*>{
        {"accuracy", accuracy},   {"black.ssim", black[0]}, {"black.psnr", black[1]}, {"black.fsim", black[2]},
        {"white.ssim", white[0]}, {"white.psnr", white[1]}, {"white.fsim", white[2]}};
  };
  const auto permuted = [](std::map<std::string, const char*> of) { // its white box is the printed one
    for (const char* what : {"ssim", "psnr", "fsim"}) {
      of[std::string("printed.") + what] = of[std::string("white.") + what];
      of.erase(std::string("white.") + what);
    }
    return of;
  };
  const DefendedTable table(
      plan, work,
      {{{.name = "SL", .fixed_edge = true},
        paper("91.91 %", {"0.645", "16.247 dB", "0.933"}, {"0.173", "12.411 dB", "0.738"})},
       {{.name = "adversarial", .adversary = plan.number("adversary")},
        paper("91.82 %", {"0.539", "12.123 dB", "0.767"}, {"0.173", "12.411 dB", "0.738"})},
       {{.name = "Blur", .protection = blur_of(plan), .fixed_edge = true},
        paper("89.84 %", {"0.501", "14.233 dB", "0.501"}, {"0.079", "10.729 dB", "0.124"})},
       {{.name = "GN", .protection = noise_of(plan), .fixed_edge = true},
        paper("82.40 %", {"0.290", "13.052 dB", "0.361"}, {"0.078", "9.968 dB", "0.127"})},
       {{.name = "RS", .rows = true, .fixed_edge = true},
        permuted(paper("91.83 %", {"0.243", "10.395 dB", "0.299"}, {"0.315", "10.519 dB", "0.139"}))},
       {{.name = "RCS", .rows = true, .columns = true, .fixed_edge = true},
        permuted(paper("91.58 %", {"0.270", "10.629 dB", "0.345"}, {"0.160", "10.464 dB", "0.107"}))},
       {{.name = "DP-SGD", .private_training = true, .fixed_edge = true}, {}},
       {{.name = "adversarial+RS", .rows = true, .adversary = plan.number("adversary")}, {}},
       {{.name = "adversarial+RCS", .rows = true, .columns = true, .adversary = plan.number("adversary")}, {}},
       {{.name = "DP-SGD+RS", .rows = true, .private_training = true, .fixed_edge = true}, {}},
       {{.name = "DP-SGD+RCS", .rows = true, .columns = true, .private_training = true, .fixed_edge = true}, {}}},
      {.black_box = true, .white_box = true, .training = false});
  table.write(o);
  o.claims.push_back(lowers_ssim(table, 0, 4, "black.ssim"));
  add_remarks(o);
  o.remarks.emplace_back(
      "F1 is a fixed patch embedding for all but the adversarial arms, as in the paper; ours is drawn, "
      "theirs pre-trained");
  o.remarks.emplace_back("white box of RS and RCS: rows are assigned to the guess's, features compared sorted; 'as "
                         "printed' takes an order of the attacker's own draw for the true one, which is the paper's "
                         "equation 3");
  o.remarks.push_back(
      fmt::format("DP-SGD hides which pictures a model was trained on, not the features of those that "
                  "are sent: the attacks see SL's. Noise {}, clip {}, delta 1 / pictures. DP-SGD+RS answers "
                  "as DP-SGD does; DP-SGD+RCS does not: its noise is drawn anew and not moved by P_C",
                  plan.number("dp_noise"), plan.number("dp_clip")));
  o.doubts.emplace_back(
      "the white-box figures of SL (SSIM 0.173 after 100,000 iterations) are those of a search that did "
      "not converge: F1 is linear and injective, and a few hundred iterations give the picture");
}

void attacks_in_training(const Plan& plan, const RunContext& work, Outcome& o) {
  const auto paper = [](const char* accuracy, const char* ssim, const char* psnr, const char* fsim) {
    return std::map<std::string, const char*>{
        {"accuracy", accuracy}, {"training.ssim", ssim}, {"training.psnr", psnr}, {"training.fsim", fsim}};
  };
  const DefendedTable table(
      plan, work,
      {{{.name = "SL"}, {}},
       {{.name = "Blur", .protection = blur_of(plan)}, paper("89.84 %", "0.34", "13.60 dB", "0.39")},
       {{.name = "RS", .rows = true}, paper("91.40 %", "0.27", "10.81 dB", "0.39")},
       {{.name = "RCS", .rows = true, .columns = true}, paper("89.92 %", "0.09", "10.46 dB", "0.34")},
       {{.name = "GN", .protection = noise_of(plan)}, {}}},
      {.black_box = false, .white_box = false, .training = true});
  table.write(o);
  o.claims.push_back(lowers_ssim(table, 0, 2, "training.ssim"));
  add_remarks(o);
  o.remarks.push_back(
      fmt::format("features of {} rounds; rows of one picture are aligned between rounds, so that a fresh "
                  "order in each adds nothing to one order",
                  plan.count("rounds")));
  o.doubts.emplace_back("the paper has 89.92 % for RCS, 'without any loss of accuracy', and 91.58 % in Table 4");
}

void attacks_on_cifar(const Plan& plan, const RunContext& work, Outcome& o) {
  const DefendedTable table(
      plan, work,
      {{{.name = "SL"}, {{"black.ssim", "0.360"}, {"black.psnr", "2.761 dB"}, {"black.fsim", "0.644"}}},
       {{.name = "RS", .rows = true},
        {{"black.ssim", "0.075"},
         {"black.psnr", "0.987 dB"},
         {"black.fsim", "0.464"},
         {"training.ssim", "0.275"},
         {"training.psnr", "10.812 dB"},
         {"training.fsim", "0.390"}}},
       {{.name = "RCS", .rows = true, .columns = true},
        {{"black.ssim", "0.094"},
         {"black.psnr", "0.984 dB"},
         {"black.fsim", "0.421"},
         {"training.ssim", "0.264"},
         {"training.psnr", "10.460 dB"},
         {"training.fsim", "0.336"}}}},
      {.black_box = true, .white_box = false, .training = true});
  table.write(o);
  o.claims.push_back(lowers_ssim(table, 0, 1, "black.ssim"));
  add_remarks(o);
  o.doubts.emplace_back("PSNR of 1 to 3 dB is below that of a grey picture; the rows on training repeat Table 5's PSNR "
                        "and F-SIM of CelebA to the digit");
}

} // namespace eg::reproduce
