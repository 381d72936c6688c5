#include "detect/minder/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "storage/safetensors.h"

namespace longhaul::detect {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kVersion = 2;  // 1: scores were shares of √(n − 1) of however many machines there were
constexpr JsonRules kRules{.code = ExitCode::kCheckpoint,
                           .what = "malformed models of detect",
                           .hint = "train them again: detect train DIR… --out FILE"};

// For the means of windows, one pair for all metrics: docs/guides/detect.md says on which cases they were
// chosen, and what they find.
constexpr double kMeanShare = 0.7, kMeanDistance = 0.05;

std::string metric_name(size_t metric) { return std::string(metrics()[metric].name); }

ordered_json names_of(const std::vector<size_t>& list) {
  ordered_json names = ordered_json::array();
  for (const size_t metric : list) names.push_back(metric_name(metric));
  return names;
}

size_t metric_in(const JsonView& name) {
  for (size_t i = 0; i < kMetrics; ++i) {
    if (metrics()[i].name == name.string()) return i;
  }
  name.fail("the name of a metric", brief(printable(name.string())));
}

std::vector<size_t> metrics_in(const JsonView& names) {
  std::vector<size_t> list;
  for (size_t i = 0; i < names.array_size(); ++i) {
    list.push_back(metric_in(names.at(i)));
    names.at(i).require(std::count(list.begin(), list.end(), list.back()) == 1, "each metric once");
  }
  return list;
}

ordered_json json_of(const TrainedVae& vae) {
  return {{"metrics", names_of(vae.metrics)},
          {"inputs", vae.shape.inputs},
          {"window", vae.shape.window},
          {"hidden", vae.shape.hidden},
          {"latent", vae.shape.latent},
          {"error", vae.error},
          {"kl", vae.kl},
          {"retained", vae.retained}};
}

TrainedVae vae_in(const JsonView& json) {
  TrainedVae vae;
  vae.metrics = metrics_in(json.at("metrics"));
  vae.shape = {.inputs = json.at("inputs").integer(1, 64),
               .window = json.at("window").integer(2, 600),
               .hidden = json.at("hidden").integer(1, 256),
               .latent = json.at("latent").integer(1, 256)};
  json.require(vae.shape.inputs == static_cast<int64_t>(vae.metrics.size()), "an input a metric");
  vae.error = json.at("error").number(), vae.kl = json.at("kl").number(),
  vae.retained = json.at("retained").number();
  return vae;
}

ordered_json json_of(const MahalanobisModel& model) {
  return {{"moments", model.shape.moments},
          {"window", model.shape.window},
          {"axes", model.shape.axes},
          {"inputs", model.shape.inputs}};
}

MahalanobisModel mahalanobis_in(const JsonView& json) {
  MahalanobisModel model;
  model.shape = {.moments = json.at("moments").integer(1, 4),
                 .window = json.at("window").integer(2, 600),
                 .axes = json.at("axes").integer(1, 128),
                 .inputs = json.at("inputs").integer(1, 64)};
  json.require(model.shape.axes <= model.shape.features(), "no more axes than features");
  return model;
}

// Every tensor of the file with the location of its values, for writing and reading.
struct Slot {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float>* values;
  int64_t offset = 0;
};

std::vector<Slot> slots_of(Models& models) {
  std::vector<Slot> slots;
  const auto add_vae = [&](const std::string& name, TrainedVae& vae) {
    vae.parameters.resize(static_cast<size_t>(vae.shape.parameters()));
    for (const VaeTensor& tensor : tensors_of(vae.shape)) {
      std::vector<int64_t> shape = {tensor.rows};
      if (tensor.columns > 0) shape.push_back(tensor.columns);
      slots.push_back({name + "." + tensor.name, shape, &vae.parameters, tensor.offset});
    }
  };
  const auto add_mahalanobis = [&](const std::string& name, MahalanobisModel& model) {
    const int64_t features = model.shape.features();
    const auto add = [&](const char* part, std::vector<int64_t> shape, std::vector<float>& values) {
      int64_t size = 1;
      for (const int64_t extent : shape) size *= extent;
      values.resize(static_cast<size_t>(size));
      slots.push_back({"mahalanobis." + name + "." + part, std::move(shape), &values});
    };
    add("mean", {features}, model.mean);
    add("scale", {features}, model.scale);
    add("projection", {model.shape.axes, features}, model.projection);
  };
  for (TrainedVae& vae : models.vaes) add_vae(metric_name(vae.metrics.front()), vae);
  add_vae("joint", models.joint);
  for (size_t i = 0; i < models.mahalanobis.size(); ++i)
    add_mahalanobis(metric_name(models.metrics[i]), models.mahalanobis[i]);
  add_mahalanobis("joint", models.mahalanobis_joint);
  return slots;
}

std::string header_of(const Models& models) {
  ordered_json json = {{"version", kVersion}, {"metrics", names_of(models.metrics)}};
  for (const size_t metric : models.metrics) {
    const Limits& limits = models.limits[metric];
    json["limits"][metric_name(metric)] = {
        {"low", limits.low}, {"high", limits.high}, {"unit", metrics()[metric].unit}};
  }
  json["vaes"] = ordered_json::array();
  for (const TrainedVae& vae : models.vaes) json["vaes"].push_back(json_of(vae));
  json["joint"] = json_of(models.joint);
  json["mahalanobis"] = ordered_json::array();
  for (const MahalanobisModel& model : models.mahalanobis) json["mahalanobis"].push_back(json_of(model));
  json["mahalanobis_joint"] = json_of(models.mahalanobis_joint);
  for (const auto& [variant, list] : models.thresholds) {
    for (const Threshold& each : list)
      json["thresholds"][variant].push_back({{"share", each.share}, {"distance", each.distance}});
  }
  json["priority"] = names_of(models.priority);
  json["in_tree"] = models.in_tree;
  return json.dump();
}

Models described(const JsonView& json) {
  Models models;
  json.at("version").require(json.at("version").integer() == kVersion, fmt::format("{}", kVersion));
  models.metrics = metrics_in(json.at("metrics"));
  const auto count = models.metrics.size();
  json.require(count > 0, "a metric");
  models.limits = limits_with({});
  for (const size_t metric : models.metrics) {
    const JsonView limits = json.at("limits").at(metric_name(metric));
    models.limits[metric] = {limits.at("low").number(), limits.at("high").number()};
    limits.require(models.limits[metric].low < models.limits[metric].high, "low < high");
  }
  json.at("vaes").require(json.at("vaes").array_size() == count, "a model a metric");
  json.at("mahalanobis").require(json.at("mahalanobis").array_size() == count, "a model a metric");
  for (size_t i = 0; i < count; ++i) {
    models.vaes.push_back(vae_in(json.at("vaes").at(i)));
    json.at("vaes").at(i).require(models.vaes.back().metrics == std::vector{models.metrics[i]},
                                  metric_name(models.metrics[i]));
    models.mahalanobis.push_back(mahalanobis_in(json.at("mahalanobis").at(i)));
  }
  models.joint = vae_in(json.at("joint"));
  models.mahalanobis_joint = mahalanobis_in(json.at("mahalanobis_joint"));
  for (const Variant variant : kVariants) {
    const std::string name(name_of(variant));
    if (!json.has("thresholds") || !json.at("thresholds").has(name)) continue;
    const JsonView list = json.at("thresholds").at(name);
    for (size_t i = 0; i < list.array_size(); ++i) {
      models.thresholds[name].push_back(
          {list.at(i).at("share").number(), list.at(i).at("distance").number()});
    }
    const bool together =
        variant == Variant::kCon || variant == Variant::kInt || variant == Variant::kMdJoint;
    list.require(list.array_size() == (together ? 1 : count), "a threshold a channel");
  }
  models.priority = metrics_in(json.at("priority"));
  json.at("priority").require(models.priority.size() == count, "every metric once");
  models.in_tree = static_cast<size_t>(json.at("in_tree").integer(0, static_cast<int64_t>(count)));
  return models;
}

}  // namespace

std::string_view name_of(Variant variant) {
  constexpr std::string_view kNames[] = {"minder", "raw", "mean", "robust-z", "con", "int", "md", "md-joint"};
  return kNames[static_cast<size_t>(variant)];
}

Variant variant_named(std::string_view name) {
  for (const Variant each : kVariants) {
    if (name_of(each) == name) return each;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "no such variant",
               .expected = fmt::format("{}", fmt::join(variant_names(), ", ")),
               .found = std::string(name)});
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Variant each : kVariants) names.emplace_back(name_of(each));
  return names;
}

std::vector<Channel> Models::channels(Variant variant, const std::vector<size_t>& order) const {
  std::vector<Channel> list;
  if (variant == Variant::kInt)
    return {{"int", joint.metrics, std::make_shared<VaeEmbedding>(joint.shape, joint.parameters)}};
  if (variant == Variant::kMdJoint)
    return {{"md-joint", metrics, std::make_shared<MahalanobisEmbedding>(mahalanobis_joint)}};
  std::vector<std::shared_ptr<const Embedding>> parts;
  for (const size_t metric : order) {
    const auto found = std::find(metrics.begin(), metrics.end(), metric);
    if (found == metrics.end()) {
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "there is no model of a metric",
                   .expected = "one of the metrics it was trained on",
                   .found = metric_name(metric),
                   .hint = program_command("detect train DIR… --metrics all --out MODELS")});
    }
    const auto at = static_cast<size_t>(found - metrics.begin());
    std::shared_ptr<const Embedding> embedding;
    if (variant == Variant::kRaw)
      embedding = std::make_shared<RawEmbedding>(vaes[at].shape.window, 1);
    else if (variant == Variant::kMean || variant == Variant::kRobustZ)
      embedding = std::make_shared<MeanEmbedding>(vaes[at].shape.window);
    else if (variant == Variant::kMd)
      embedding = std::make_shared<MahalanobisEmbedding>(mahalanobis[at]);
    else
      embedding = std::make_shared<VaeEmbedding>(vaes[at].shape, vaes[at].parameters);
    parts.push_back(embedding);
    if (variant != Variant::kCon)
      list.push_back({metric_name(metric),
                      {metric},
                      embedding,
                      variant == Variant::kRobustZ ? Apart::kRobustZ : Apart::kDistanceSums});
  }
  if (variant == Variant::kCon)
    list.push_back({"con", order, std::make_shared<ConcatenatedEmbedding>(parts)});
  return list;
}

Threshold Models::threshold(Variant variant, const Channel& channel) const {
  const auto found = thresholds.find(std::string(name_of(variant)));
  if (found == thresholds.end()) return {};
  if (found->second.size() == 1) return found->second.front();
  const auto at = std::find(metrics.begin(), metrics.end(), channel.metrics.front()) - metrics.begin();
  return found->second.at(static_cast<size_t>(at));
}

Models untrained_models() {
  Models models;
  models.limits = limits_with({});
  for (size_t metric = 0; metric < kUsedMetrics; ++metric) {
    models.metrics.push_back(metric);
    models.priority.push_back(metric);
    models.vaes.push_back({.metrics = {metric}, .shape = {}, .parameters = {}});
  }
  models.thresholds[std::string(name_of(Variant::kMean))] = {
      {.share = kMeanShare, .distance = kMeanDistance}};
  return models;
}

void save_models(const std::filesystem::path& file, const Models& models) {
  Models copy = models;
  std::vector<storage::TensorData> tensors;
  for (const Slot& slot : slots_of(copy)) {
    int64_t size = 1;
    for (const int64_t extent : slot.shape) size *= extent;
    const std::span<const float> values(slot.values->data() + slot.offset, static_cast<size_t>(size));
    tensors.push_back({slot.name, storage::DType::kF32, slot.shape, std::as_bytes(values)});
  }
  if (file.has_parent_path()) make_folders(file.parent_path());
  storage::LocalFileSystem files;
  storage::write_safetensors(files, file, tensors, {{"longhaul.detect", header_of(models)}});
}

Models load_models(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "there are no models",
                 .expected = "the file that `detect train … --out` wrote",
                 .found = "no such file",
                 .where = path.string(),
                 .hint = program_command("detect train DIR… --out " + shell_quoted(path.string()))});
  }
  const storage::LocalFileSystem files;
  const auto file = storage::SafetensorsFile::open(files, path, {}, storage::Links::kFollow);
  const auto header = file.metadata().find("longhaul.detect");
  if (header == file.metadata().end()) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the file holds no models of detect",
                 .expected = "metadata longhaul.detect, as `detect train` writes it",
                 .found = "other tensors",
                 .where = path.string()});
  }
  const nlohmann::json json = parse_json(header->second, path.string(), kRules);
  Models models = described({json, path.string() + ":", kRules});
  for (const Slot& slot : slots_of(models)) {
    const storage::TensorInfo& tensor = file.at(slot.name);
    const bool fits = tensor.dtype == storage::DType::kF32 && tensor.shape == slot.shape;
    const std::vector<std::byte> bytes = fits ? file.read(slot.name) : std::vector<std::byte>();
    if (fits) std::memcpy(slot.values->data() + slot.offset, bytes.data(), bytes.size());
    const std::span<const float> values(slot.values->data() + slot.offset, bytes.size() / sizeof(float));
    const bool finite =
        std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    if (fits && finite) continue;
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "a tensor of the models cannot be used",
                 .expected = "finite fp32 values of the shape its description gives",
                 .found = fits ? "values that are not finite" : "another type or shape",
                 .where = path.string() + ": " + slot.name});
  }
  return models;
}

}  // namespace longhaul::detect
