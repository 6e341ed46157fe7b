#include "apps/report/image_record.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::report {

nlohmann::json image_record(const data::Image& image) {
  return nlohmann::json::array({image.height, image.width, image.channels, nlohmann::json::binary(image.pixels)});
}

data::Image image_of_record(const nlohmann::json& record) {
  data::Image image{.height = record.at(0).get<int>(),
                    .width = record.at(1).get<int>(),
                    .channels = record.at(2).get<int>(),
                    .pixels = record.at(3).get_binary()};
  const auto wanted = static_cast<std::int64_t>(image.height) * image.width * image.channels;
  if (image.height < 0 || image.width < 0 || image.channels < 0 ||
      wanted != static_cast<std::int64_t>(image.pixels.size()))
    throw ValueError(fmt::format("a picture of {} x {} x {} has {} bytes", image.height, image.width, image.channels,
                                 image.pixels.size()));
  return image;
}

} // namespace eg::report
