#include "apps/fetch/sets.h"

#include "apps/fetch/imdb.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/words.h"
#include "data/unpack.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

namespace eg::fetch {
namespace {

constexpr const char* mnist_place = "https://storage.googleapis.com/cvdf-datasets/mnist/";
constexpr const char* fashion_place = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/";
constexpr const char* toronto = "https://www.cs.toronto.edu/~kriz/";

constexpr std::array mnist_files{
    SetFile{"train-images-idx3-ubyte.gz", mnist_place,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9'912'422},
    SetFile{"train-labels-idx1-ubyte.gz", mnist_place,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28'881},
    SetFile{"t10k-images-idx3-ubyte.gz", mnist_place,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1'648'877},
    SetFile{"t10k-labels-idx1-ubyte.gz", mnist_place,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4'542},
};

constexpr std::array fashion_files{
    SetFile{"train-images-idx3-ubyte.gz", fashion_place,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26'421'880},
    SetFile{"train-labels-idx1-ubyte.gz", fashion_place,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29'515},
    SetFile{"t10k-images-idx3-ubyte.gz", fashion_place,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4'422'102},
    SetFile{"t10k-labels-idx1-ubyte.gz", fashion_place,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5'148},
};

constexpr std::array cifar10_files{
    SetFile{"cifar-10-binary.tar.gz", toronto, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170'052'171},
};

constexpr std::array cifar100_files{
    SetFile{"cifar-100-binary.tar.gz", toronto, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            168'513'733},
};

constexpr std::array imdb_files{
    SetFile{"aclImdb_v1.tar.gz", "https://ai.stanford.edu/~amaas/data/sentiment/",
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe", 84'125'825},
};

constexpr std::array shakespeare_files{
    SetFile{"input.txt", "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed", 1'115'394},
};

/// The .bin and .txt files of a tar, each complete or not at all. Names are cut to their last part.
void unpack_records(const std::string& archive, const std::string& folder) {
  std::filesystem::create_directories(folder);
  data::read_tar(archive, [&](const data::ArchiveMember& member) {
    const std::string name = std::filesystem::path(member.name).filename();
    if (name.ends_with(".bin") || name.ends_with(".txt")) write_file(join_path(folder, name), member.bytes);
  });
}

void unpack_cifar10(const std::string& archive, const std::string& folder) {
  unpack_records(archive, join_path(folder, "cifar-10-batches-bin"));
}

void unpack_cifar100(const std::string& archive, const std::string& folder) {
  unpack_records(archive, join_path(folder, "cifar-100-binary"));
}

constexpr std::array sets{
    PublicSet{"cifar10", "60,000 colour images of 10 classes, 32 x 32", "cifar10", cifar10_files, unpack_cifar10},
    PublicSet{"cifar100", "60,000 colour images of 100 classes, 32 x 32", "cifar100", cifar100_files, unpack_cifar100},
    PublicSet{"mnist", "70,000 handwritten digits, 28 x 28", "mnist", mnist_files},
    PublicSet{"fashion-mnist", "70,000 pictures of clothes, 28 x 28", "fashion-mnist", fashion_files},
    PublicSet{"imdb", "50,000 film reviews, for or against", "imdb", imdb_files, unpack_imdb},
    PublicSet{"tinyshakespeare", "1.1 MB of Shakespeare's plays", "tinyshakespeare", shakespeare_files},
};

} // namespace

std::span<const PublicSet> public_sets() { return sets; }

const PublicSet& public_set(const std::string& name) {
  std::vector<std::string> names;
  for (const PublicSet& set : sets) {
    if (name == set.name) return set;
    names.emplace_back(set.name);
  }
  throw ValueError(
      fmt::format("there is no set '{}'{}; there are {}", name, did_you_mean(name, names), fmt::join(names, ", ")));
}

std::string fetch_set(const PublicSet& set, const std::string& data_dir, const std::string& mirror, StopFlag stop,
                      const SetProgress& on_progress) {
  const std::string folder = join_path(data_dir, set.folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw FileError(fmt::format("{}: the folder cannot be made: {}", folder, error.message()));
  std::int64_t before = 0, total = 0;
  for (const SetFile& file : set.files) total += file.bytes;
  for (const SetFile& file : set.files) {
    const std::string place = mirror.empty() || mirror.ends_with('/') ? mirror : mirror + "/";
    const RemoteFile remote{(place.empty() ? file.url : place) + std::string(file.name), file.sha256, file.bytes};
    const std::string path = join_path(folder, file.name);
    download(remote, path, {.stop = stop, .on_progress = [&](std::int64_t done) {
                              if (on_progress) on_progress(before + done, total, file.name);
                            }});
    if (set.unpack != nullptr) set.unpack(path, folder);
    before += file.bytes;
  }
  return folder;
}

} // namespace eg::fetch
