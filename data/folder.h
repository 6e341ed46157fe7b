#pragma once
// Picks images from class folders before any is decoded; used by folder.cpp and open.cpp only.

#include "data/dataset.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::data {

/// An image file of a class folder.
struct Picture {
  std::string path;
  std::int32_t label = 0;
  std::int64_t place = 0; ///< position among the images of its class, in the order of paths
  std::string fault;      ///< why there is no file to be read; "" when there is one
};

struct PictureList {
  std::vector<std::string> class_names;
  std::vector<Picture> pictures;
  std::vector<std::string> astray; ///< what is wrong with images, and links, beside the class folders
  std::string folder;
};

/// Classes in name order and their image files, those of folders inside a class too, in the order of their paths;
/// recognised by their names (.png, .jpg, .jpeg, and .gif, .bmp, .webp, .tif, .tiff, which do not decode). Links that
/// lead nowhere, pipes and devices that have such a name, or one without an ending, are listed with their fault. Hidden
/// files are left out. Throws FileError when there are none, or none of a class.
PictureList list_pictures(const std::string& folder);

/// Keeps `limit` images (0: all): the first of every class, then the second of every class, and so on, in the order
/// they had.
void limit_pictures(PictureList& list, std::int64_t limit);

/// Decodes them; `options` as in read_image_folder. Throws FileError too when skipping leaves none of a class.
ImageDataset load_pictures(PictureList list, const std::string& name, const DatasetOptions& options);

} // namespace eg::data
