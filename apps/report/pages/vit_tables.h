#pragma once
// Tabulates a vision transformer's predictions: of images with attributes, and beside its teacher.

#include "apps/report/pages/predictions.h"
#include "apps/report/pages/vit_subject.h"

#include <string>
#include <vector>

namespace eg::pages {

/// How both classifiers of a DeiT agree with its teacher and with the labels. Throws FileError.
void add_teacher(report::Page& page, const VitSubject& subject, const Predictions& p, const FigureOptions& o);

/// Which attributes the model names, [image][attribute].
using Attributes = std::vector<std::vector<bool>>;
Attributes attributes_of(const VitSubject& subject, const FigureOptions& o);
/// Of each attribute its frequency, the model's accuracy, and the accuracy of always giving the commoner
/// answer.
void add_attributes(report::Page& page, const VitSubject& subject, const Attributes& named);
/// "Eyeglasses, Smiling": what the model names.
std::string named_list(const VitSubject& subject, const std::vector<bool>& named);

} // namespace eg::pages
