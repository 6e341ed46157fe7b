#include "apps/report/pages/vit_tables.h"

#include "core/ops.h"
#include "training/vision_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace eg::pages {
namespace {

/// Two lists of classes: how many places agree.
std::int64_t agreeing(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 1 : 0;
  return count;
}

} // namespace

void add_teacher(report::Page& page, const VitSubject& subject, const Predictions& p, const FigureOptions& o) {
  const training::VitOptions& options = subject.options();
  const training::ImageKind kind{subject.data().height(), subject.data().channels(), subject.data().class_names()};
  const training::Teacher teacher(options.teacher, kind, subject.pixels(), options.dtype);
  std::vector<std::int64_t> taught, by_class, by_distillation;
  const auto append = [](std::vector<std::int64_t>& list, const Tensor& classes) {
    const auto found = classes.to_vector<std::int64_t>();
    list.insert(list.end(), found.begin(), found.end());
  };
  subject.each_batch(o.samples, o.stop, [&](const Tensor& images, const Tensor&) {
    const nn::Vit::TwoLogits two = subject.model().heads(subject.encoded(images));
    append(taught, teacher.classes(images));
    append(by_class, argmax(two.classes, -1));
    append(by_distillation, argmax(two.distillation, -1));
  });
  const auto percent = [&](std::int64_t count) {
    return fmt::format("{:.2f} %", 100.0 * static_cast<double>(count) / static_cast<double>(taught.size()));
  };
  const auto row = [&](const char* who, const std::vector<std::int64_t>& said) {
    return std::vector<std::string>{who, percent(agreeing(said, taught)), percent(agreeing(said, p.labels))};
  };
  page.paragraph("The model and its teacher: the classifier of the class token learns from the labels, that of the "
                 "distillation token from what the teacher says.");
  page.table({"who", "says what the teacher says", "is right"},
             {row("the model (the mean of both classifiers)", p.said), row("the class token's classifier", by_class),
              row("the distillation token's classifier", by_distillation), row("the teacher", taught)});
}

Attributes attributes_of(const VitSubject& subject, const FigureOptions& o) {
  Attributes named;
  subject.each_batch(o.samples, o.stop, [&](const Tensor& images, const Tensor&) {
    const Tensor logits = subject.logits(images).to(DType::f64);
    const std::vector<double> values = logits.to_vector<double>();
    const auto names = static_cast<std::size_t>(logits.size(1));
    for (std::size_t at = 0; at < values.size(); at += names) {
      named.emplace_back();
      for (std::size_t a = 0; a < names; ++a) named.back().push_back(values[at + a] > 0.0);
    }
  });
  return named;
}

void add_attributes(report::Page& page, const VitSubject& subject, const Attributes& named) {
  const auto all = static_cast<double>(named.size());
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100.0 * share); };
  std::vector<std::vector<std::string>> rows;
  double sum = 0.0;
  const std::vector<std::string>& names = subject.data().class_names();
  for (std::size_t a = 0; a < names.size(); ++a) {
    double there = 0.0, right = 0.0;
    for (std::size_t i = 0; i < named.size(); ++i) {
      const bool is = subject.data().attributes(static_cast<std::int64_t>(i))[a] == 1;
      there += is ? 1.0 : 0.0;
      right += is == named[i][a] ? 1.0 : 0.0;
    }
    sum += right;
    rows.push_back({names[a], percent(there / all), percent(right / all), percent(std::max(there, all - there) / all)});
  }
  page.paragraph(fmt::format("The model of step {} on {} of {} test images of {}: {:.2f} % of the attributes right.",
                             subject.step(), named.size(), subject.data().size(), subject.data().name(),
                             100.0 * sum / (all * static_cast<double>(names.size()))));
  page.table({"attribute", "is there", "the model is right", "who does not look is right"}, rows);
}

std::string named_list(const VitSubject& subject, const std::vector<bool>& named) {
  std::string list;
  for (std::size_t a = 0; a < named.size(); ++a)
    if (named[a]) list += (list.empty() ? "" : ", ") + subject.data().class_names()[a];
  return list.empty() ? "(none)" : list;
}

} // namespace eg::pages
