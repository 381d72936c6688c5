#include "storage/manifest.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/checksum.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// The seal is appended to the text of the object in place of its closing brace, so what it covers is a prefix
// of the file.
constexpr std::string_view kSealStart = ",\n\"manifest_sha256\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";
constexpr size_t kHashLength = 64;
constexpr size_t kSealLength = kSealStart.size() + kHashLength + kSealEnd.size();
constexpr size_t kMaximumRank = 8;

const JsonRules& manifest_rules() {
  static const std::string hint = "the file is damaged or not ours; " + program_command("checkpoint verify") +
                                  " tells which checkpoints are whole";
  static const JsonRules rules = {
      .code = ExitCode::kCheckpoint, .what = "malformed checkpoint manifest", .hint = hint};
  return rules;
}

[[noreturn]] void unusable(const std::string& where, const std::string& what, const std::string& expected,
                           const std::string& found) {
  throw Error({.code = ExitCode::kCheckpoint,
               .what = what,
               .expected = expected,
               .found = found,
               .where = where,
               .hint = "use another checkpoint: " + program_command("checkpoint verify RUN") +
                       " reads them all and says which are whole"});
}

std::string tensor_at(const std::string& where, const std::string& name) {
  return fmt::format("{}, tensor '{}'", where, brief(name));
}

std::string crc_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

bool is_hex(std::string_view text, size_t length) {
  return text.size() == length && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

uint32_t crc_from(const std::string& text, const std::string& where) {
  if (!is_hex(text, 8)) unusable(where, "malformed crc32c", "8 hexadecimal digits", brief(text));
  return static_cast<uint32_t>(std::stoul(text, nullptr, 16));
}

ordered_json shard_json(const ManifestShard& shard) {
  return {{"file", shard.file},
          {"key", shard.key},
          {"offset", shard.offset},
          {"length", shard.length},
          {"crc32c", crc_text(shard.crc32c)}};
}

ManifestShard shard_from(const json& value, const std::string& where) {
  JsonFields fields({value, where, manifest_rules()});
  ManifestShard shard;
  shard.file = fields.text("file");
  shard.key = fields.text("key");
  shard.offset = fields.integers("offset", kMaximumRank);
  shard.length = fields.integers("length", kMaximumRank);
  shard.crc32c = crc_from(fields.text("crc32c"), where);
  fields.finish();
  return shard;
}

ordered_json file_json(const ManifestFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}};
}

ManifestFile file_from(const json& value, const std::string& where) {
  JsonFields fields({value, where, manifest_rules()});
  ManifestFile file{fields.text("name"), fields.integer("bytes", 0), fields.text("sha256")};
  fields.finish();
  return file;
}

DType dtype_from(const std::string& name, const std::string& where) {
  const auto dtype = dtype_named(name);
  if (!dtype) unusable(where, "unknown dtype", "a safetensors dtype such as F32", brief(name));
  return *dtype;
}

std::string_view unsealed(std::string_view text, const std::string& where) {
  const auto broken = [&](const std::string& found) {
    unusable(where, "the manifest's checksum does not match: a torn or changed file",
             "its own sha256 at the end", found);
  };
  if (text.size() < kSealLength) broken(fmt::format("{} bytes", text.size()));
  const std::string_view body = text.substr(0, text.size() - kSealLength), seal = text.substr(body.size());
  const std::string_view hash = seal.substr(kSealStart.size(), kHashLength);
  if (!seal.starts_with(kSealStart) || !seal.ends_with(kSealEnd)) broken("no checksum");
  if (sha256_hex(body) != hash) broken("another checksum");
  return body;
}

// Bounds and sizes are checked first, in numbers that cannot overflow; only then the geometry.
void check_tiling(const ManifestTensor& tensor, const std::string& where) {
  const int64_t whole = tensor_bytes(tensor.dtype, tensor.shape, where);
  const size_t rank = tensor.shape.size();
  int64_t covered = 0;
  for (const ManifestShard& shard : tensor.shards) {
    bool inside = shard.offset.size() == rank && shard.length.size() == rank;
    for (size_t d = 0; inside && d < rank; ++d) {
      inside = shard.length[d] <= tensor.shape[d] && shard.offset[d] <= tensor.shape[d] - shard.length[d];
    }
    if (!inside) {
      unusable(where, "a stored piece lies outside its tensor",
               fmt::format("inside [{}]", fmt::join(tensor.shape, ", ")),
               fmt::format("offset [{}], length [{}]", fmt::join(shard.offset, ", "),
                           fmt::join(shard.length, ", ")));
    }
    if (__builtin_add_overflow(covered, tensor_bytes(tensor.dtype, shard.length, where), &covered)) break;
    if (covered > whole) break;  // they overlap
  }
  if (covered != whole || tensor.shards.empty()) {
    unusable(where, "the stored pieces do not make up the tensor", fmt::format("{} bytes", whole),
             fmt::format("{} bytes", covered));
  }
  if (tensor.shards.size() == 1) return;
  std::vector<layout::Rectangle> rectangles;
  for (const ManifestShard& shard : tensor.shards) rectangles.push_back(rectangle_of(shard));
  const auto defect = layout::covering_defect(rank == 0 ? layout::Shape{1} : tensor.shape, rectangles);
  if (defect) unusable(where, "the stored pieces do not make up the tensor", "pieces that tile it", *defect);
}

void read_tensors(const json& tensors, Manifest& manifest, const std::string& where) {
  for (const auto& [name, value] : tensors.items()) {
    const std::string at = tensor_at(where, name);
    JsonFields fields({value, at, manifest_rules()});
    ManifestTensor tensor;
    tensor.shape = fields.integers("shape", kMaximumRank);
    tensor.dtype = dtype_from(fields.text("dtype"), at);
    tensor.role = fields.text("role");
    for (const json& shard : fields.array("shards")) tensor.shards.push_back(shard_from(shard, at));
    fields.finish();
    manifest.tensors.emplace(name, std::move(tensor));
  }
}

}  // namespace

layout::Rectangle rectangle_of(const ManifestShard& shard) {
  if (shard.length.empty()) return layout::Rectangle::whole({1});
  return {.offset = shard.offset, .length = shard.length};
}

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes;
  return sum;
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '-' || c == '_';
         });
}

std::string to_text(const Manifest& manifest) {
  ordered_json out;
  out["version"] = kManifestVersion;
  out["run"] = manifest.run_id;
  out["generation"] = manifest.generation;
  out["step"] = manifest.step;
  out["world"] = manifest.world;
  out["parent_step"] = manifest.parent_step;
  out["wall_time"] = manifest.wall_time;
  out["data_position"] = manifest.data_position;
  out["state"] = manifest.state;
  out["environment"] = manifest.environment;
  out["recipe"] = manifest.recipe;
  // One member, file or tensor per line keeps the file readable and comparable without making it long.
  std::string text = "{";
  for (const auto& [key, value] : out.items()) text += fmt::format("\n\"{}\": {},", key, value.dump());
  text += "\n\"files\": [";
  const char* separator = "\n  ";
  for (const ManifestFile& file : manifest.files) {
    text += separator + file_json(file).dump();
    separator = ",\n  ";
  }
  text += "],\n\"tensors\": {";
  separator = "\n  ";
  for (const auto& [name, tensor] : manifest.tensors) {
    ordered_json shards = ordered_json::array();
    for (const ManifestShard& shard : tensor.shards) shards.push_back(shard_json(shard));
    const ordered_json value = {{"shape", tensor.shape},
                                {"dtype", name_of(tensor.dtype)},
                                {"role", tensor.role},
                                {"shards", std::move(shards)}};
    text += separator + json(name).dump() + ": " + value.dump();
    separator = ",\n  ";
  }
  text += "}";
  return text + std::string(kSealStart) + sha256_hex(text) + std::string(kSealEnd);
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  if (static_cast<int64_t>(text.size()) > kManifestLimitBytes) {
    unusable(where, "the manifest is too large", fmt::format("at most {} bytes", kManifestLimitBytes),
             fmt::format("{}", text.size()));
  }
  const std::string body = std::string(unsealed(text, where)) + "\n}";
  const json root = parse_json(body, where, manifest_rules());
  JsonFields fields({root, where, manifest_rules()});
  const int64_t version = fields.integer("version", 1);
  if (version != kManifestVersion) {
    unusable(where, "the checkpoint was written by a newer Longhaul",
             fmt::format("format version {}", kManifestVersion), fmt::format("format version {}", version));
  }
  Manifest manifest;
  manifest.run_id = fields.text("run");
  manifest.generation = fields.integer("generation", 0);
  manifest.step = fields.integer("step", 0);
  manifest.world = fields.integer("world", 1);
  manifest.parent_step = fields.integer("parent_step", -1);
  manifest.wall_time = fields.text("wall_time");
  manifest.data_position = fields.object("data_position");
  manifest.state = fields.object("state");
  manifest.environment = fields.object("environment");
  manifest.recipe = fields.object("recipe");
  for (const json& file : fields.array("files")) manifest.files.push_back(file_from(file, where));
  read_tensors(fields.object("tensors"), manifest, where);
  fields.finish();
  check_consistent(manifest, where);
  return manifest;
}

void check_consistent(const Manifest& manifest, const std::string& where) {
  std::unordered_map<std::string, std::unordered_set<std::string>> keys_of_file;
  int64_t sum = 0;
  for (const ManifestFile& file : manifest.files) {
    if (!is_plain_file_name(file.name) || file.name == kManifestName) {
      unusable(where, "unusable file name", "letters, digits, '.', '-', '_'", brief(file.name));
    }
    if (!is_hex(file.sha256, kHashLength))
      unusable(where, "malformed sha256", "64 hexadecimal digits", brief(file.sha256));
    if (__builtin_add_overflow(sum, file.bytes, &sum))
      unusable(where, "file sizes overflow", "63 bits", file.name);
    if (!keys_of_file.try_emplace(file.name).second)
      unusable(where, "a file is listed twice", "each once", file.name);
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    const std::string at = tensor_at(where, name);
    if (name.empty()) unusable(at, "a tensor without a name", "a name", "none");
    check_tiling(tensor, at);
    for (const ManifestShard& shard : tensor.shards) {
      const auto file = keys_of_file.find(shard.file);
      if (file == keys_of_file.end())
        unusable(at, "a piece lies in an unlisted file", "a file of the list", brief(shard.file));
      if (!file->second.insert(shard.key).second)
        unusable(at, "two pieces share a key", "each key once per file", brief(shard.key));
    }
  }
}

json to_json(const FileReport& report) {
  json shards = json::array();
  for (const ReportedShard& shard : report.shards) {
    shards.push_back({{"tensor", shard.tensor},
                      {"shape", shard.shape},
                      {"dtype", name_of(shard.dtype)},
                      {"role", shard.role},
                      {"shard", shard_json(shard.shard)}});
  }
  return {{"file", file_json(report.file)}, {"shards", std::move(shards)}};
}

FileReport file_report_from_json(const json& value, const std::string& where) {
  JsonFields fields({value, where, manifest_rules()});
  FileReport report{.file = file_from(fields.object("file"), where)};
  for (const json& entry : fields.array("shards")) {
    JsonFields one({entry, where, manifest_rules()});
    ReportedShard shard;
    shard.tensor = one.text("tensor");
    shard.shape = one.integers("shape", kMaximumRank);
    shard.dtype = dtype_from(one.text("dtype"), where);
    shard.role = one.text("role");
    shard.shard = shard_from(one.object("shard"), where);
    one.finish();
    report.shards.push_back(std::move(shard));
  }
  fields.finish();
  return report;
}

}  // namespace longhaul::storage
