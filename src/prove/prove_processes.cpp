#include "prove/prove_processes.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "comm/gloo/rank_processes.h"
#include "comm/world.h"

namespace longhaul::prove {
namespace {

using Json = nlohmann::json;

std::filesystem::path file_of(const std::filesystem::path& folder, int64_t rank, const char* kind) {
  return folder / fmt::format("rank-{}.{}", rank, kind);
}

constexpr std::pair<const char*, std::vector<HeldBox> Seen::*> kBoxes[] = {{"gradients", &Seen::gradients},
                                                                           {"parameters", &Seen::parameters},
                                                                           {"start", &Seen::start},
                                                                           {"masters", &Seen::masters},
                                                                           {"rounded", &Seen::rounded}};

// Numbers go to a file beside the JSON, which has no word for what is not finite.
class SeenWriter {
 public:
  Json json_of(const Seen& seen) {
    for (const auto* list : {&seen.losses, &seen.norms})
      numbers_.insert(numbers_.end(), list->begin(), list->end());
    Json json = {{"steps", seen.losses.size()}};
    for (const auto& [name, boxes] : kBoxes) json[name] = boxes_of(seen.*boxes);
    return json;
  }
  void save(const std::filesystem::path& path) const {
    write_text_atomically(path,
                          {reinterpret_cast<const char*>(numbers_.data()), numbers_.size() * sizeof(double)});
  }

 private:
  Json boxes_of(const std::vector<HeldBox>& all) {
    Json list = Json::array();
    for (const HeldBox& each : all) {
      list.push_back({{"name", each.name}, {"offset", each.box.offset}, {"length", each.box.length}});
      const Tensor flat = each.values.contiguous();
      numbers_.insert(numbers_.end(), flat.const_data_ptr<double>(),
                      flat.const_data_ptr<double>() + flat.numel());
    }
    return list;
  }
  std::vector<double> numbers_;
};

class SeenReader {
 public:
  explicit SeenReader(const std::filesystem::path& path) : bytes_(read_text(path)) {}
  Seen seen_of(const Json& json) {
    const auto steps = json.at("steps").get<size_t>();
    Seen seen;
    for (auto* list : {&seen.losses, &seen.norms}) {
      for (size_t i = 0; i < steps; ++i) list->push_back(take({1}).item<double>());
    }
    for (const auto& [name, boxes] : kBoxes) seen.*boxes = boxes_of(json.at(name));
    return seen;
  }
  bool at_end() const { return read_ == bytes_.size(); }

 private:
  std::vector<HeldBox> boxes_of(const Json& list) {
    std::vector<HeldBox> all;
    for (const Json& each : list) {
      const layout::Rectangle box{each.at("offset"), each.at("length")};
      all.push_back({each.at("name"), box, take(box.length)});
    }
    return all;
  }
  Tensor take(const std::vector<int64_t>& sizes) {
    const Tensor values = at::empty(sizes, at::kDouble);
    LONGHAUL_ASSERT(read_ + values.nbytes() <= bytes_.size(), "a rank wrote {} bytes", bytes_.size());
    bytes_.copy(static_cast<char*>(values.mutable_data_ptr()), values.nbytes(), read_);
    read_ += values.nbytes();
    return values;
  }
  std::string bytes_;
  size_t read_ = 0;
};

}  // namespace

std::vector<SeenTwice> prove_in_processes(const ProofSubject& subject,
                                          const std::optional<ProofCheckpoints>& checkpoints,
                                          const ProofProcess& process) {
  const TemporaryFolder folder;
  Json task = {{"dtype", subject.dtype}};
  if (checkpoints)
    task.update({{"earlier", checkpoints->earlier.string()}, {"own", checkpoints->own.string()}});
  write_text_atomically(folder / "task.json", task.dump());
  const int64_t world = subject.layout.parallel.world();
  comm::require_all_end_well(
      {.size = world, .words = process(subject.layout, folder.path()), .folder = folder.path()});
  std::vector<SeenTwice> all;
  for (int64_t rank = 0; rank < world; ++rank) {
    const Json json = Json::parse(read_text(file_of(folder.path(), rank, "json")));
    SeenReader reader(file_of(folder.path(), rank, "fp64"));
    const Seen whole = reader.seen_of(json.at("whole"));
    all.push_back({whole, reader.seen_of(json.at("resumed"))});
    LONGHAUL_ASSERT(reader.at_end(), "rank {} wrote more than it names", rank);
  }
  return all;
}

void prove_as_process(ProofSubject subject, const std::filesystem::path& folder) {
  const Json task = Json::parse(read_text(folder / "task.json"));
  subject.dtype = task.at("dtype");
  std::optional<ProofCheckpoints> checkpoints;
  if (task.contains("own"))
    checkpoints = {task.at("earlier").get<std::string>(), task.at("own").get<std::string>()};
  const auto world = comm::join_world({});
  const SeenTwice seen = prove_rank(subject, *world, checkpoints);
  SeenWriter writer;
  Json json;
  json["whole"] = writer.json_of(seen.whole);
  json["resumed"] = writer.json_of(seen.resumed);
  writer.save(file_of(folder, world->rank(), "fp64"));
  write_text_atomically(file_of(folder, world->rank(), "json"), json.dump());
}

}  // namespace longhaul::prove
