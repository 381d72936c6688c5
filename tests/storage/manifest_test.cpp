#include "storage/manifest.h"

#include <gmock/gmock.h>

#include <functional>

#include "base/checksum.h"
#include "files_for_tests.h"
#include "support/storage/recording_file_system.h"

namespace longhaul::storage {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  RecordingFileSystem disk;
  return read_manifest(disk, save_test_checkpoint(disk, "/run/checkpoints", 12, 3, 7));
}

// The same manifest with its JSON edited and sealed anew: what a wrong but well-meant program could write.
std::string edited(const Manifest& manifest, const std::function<void(nlohmann::json&)>& edit) {
  const std::string text = to_text(manifest);
  nlohmann::json json = nlohmann::json::parse(text);
  json.erase("manifest_sha256");
  edit(json);
  std::string body = json.dump();
  body.pop_back();
  return body + ",\n\"manifest_sha256\": \"" + sha256_hex(body) + "\"\n}\n";
}

std::string manifest_refusal(const std::string& text) {
  const Error error = error_of([&] { parse_manifest(text, "the-manifest"); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("the-manifest"));
  return error.what();
}

TEST(ManifestText, RoundTrips) {
  Manifest manifest = example();
  manifest.parent_step = 6;
  manifest.recipe = {{"train", {{"steps", 20}, {"lr", 0.1}}}, {"text", "ä\n\"\\"}};
  const std::string text = to_text(manifest);
  const Manifest again = parse_manifest(text, "x");
  EXPECT_EQ(to_text(again), text);
  EXPECT_EQ(again.step, 12);
  EXPECT_EQ(again.generation, 3);
  EXPECT_EQ(again.parent_step, 6);
  EXPECT_EQ(again.tensors.at("layers.0.weight").shards.size(), 2u);
  EXPECT_EQ(again.recipe.at("train").at("lr").get<double>(), 0.1);
  EXPECT_NO_THROW(nlohmann::json::parse(text)) << "anyone's JSON reader reads it";
}

TEST(ManifestText, EveryChangedBitIsNoticed) {
  const std::string text = to_text(example());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      ASSERT_THROW(parse_manifest(changed, "x"), Error) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(ManifestText, EveryTruncationAndAdditionIsNoticed) {
  const std::string text = to_text(example());
  for (size_t length = 0; length < text.size(); ++length)
    ASSERT_THROW(parse_manifest(text.substr(0, length), "x"), Error) << length;
  EXPECT_THROW(parse_manifest(text + "\n", "x"), Error);
  EXPECT_THROW(parse_manifest(text + text, "x"), Error);
}

TEST(ManifestText, RefusesWhatIsInconsistent) {
  const Manifest good = example();
  EXPECT_NO_THROW(parse_manifest(edited(good, [](auto&) {}), "x"));
  const auto with = [&](const std::function<void(nlohmann::json&)>& edit) {
    return manifest_refusal(edited(good, edit));
  };
  EXPECT_THAT(with([](auto& j) { j["version"] = 2; }), HasSubstr("newer Longhaul"));
  with([](auto& j) { j["version"] = "1"; });
  with([](auto& j) { j.erase("version"); });
  with([](auto& j) { j.erase("files"); });
  with([](auto& j) { j["more"] = 1; });
  with([](auto& j) { j["step"] = -1; });
  with([](auto& j) { j["step"] = 1.5; });
  with([](auto& j) { j["step"] = 18446744073709551615u; });
  with([](auto& j) { j["files"][0]["name"] = "../rank-00000.safetensors"; });
  with([](auto& j) { j["files"][0]["name"] = "/etc/passwd"; });
  with([](auto& j) { j["files"][0]["name"] = "manifest.json"; });
  with([](auto& j) { j["files"][0]["sha256"] = "00"; });
  EXPECT_THAT(with([](auto& j) { j["files"].push_back(j["files"][0]); }), HasSubstr("twice"));
  with([](auto& j) { j["files"][0]["bytes"] = 9223372036854775807; });
  EXPECT_THAT(with([](auto& j) { j["files"].erase(1); }), HasSubstr("unlisted file"));
  auto weight = [](auto& j) -> nlohmann::json& { return j["tensors"]["layers.0.weight"]; };
  EXPECT_THAT(with([&](auto& j) { weight(j)["shards"].erase(0); }), HasSubstr("layers.0.weight"));
  with([&](auto& j) { weight(j)["shards"] = nlohmann::json::array(); });
  with([&](auto& j) { weight(j)["shards"].push_back(weight(j)["shards"][0]); });
  EXPECT_THAT(with([&](auto& j) {
                weight(j)["shards"][1]["offset"] = {0, 0};
              }),
              HasSubstr("make up the tensor"));
  EXPECT_THAT(with([&](auto& j) { weight(j)["shards"][1]["offset"] = {5, 0}; }), HasSubstr("outside"));
  with([&](auto& j) { weight(j)["shards"][1]["offset"] = {9223372036854775807, 0}; });
  with([&](auto& j) { weight(j)["shards"][1]["offset"] = {4}; });
  with([&](auto& j) { weight(j)["shape"] = {6, 5}; });
  with([&](auto& j) { weight(j)["shape"] = {9223372036854775807, 4}; });
  with([&](auto& j) { weight(j)["shape"] = {1, 1, 1, 1, 1, 1, 1, 6, 4}; });
  with([&](auto& j) { weight(j)["dtype"] = "F31"; });
  with([&](auto& j) { weight(j)["shards"][0]["crc32c"] = "xyz"; });
  with([&](auto& j) { weight(j)["shards"][0]["crc32c"] = "+1234567"; });
  EXPECT_THAT(
      with([&](auto& j) { j["tensors"]["norm"]["shards"][0]["key"] = weight(j)["shards"][0]["key"]; }),
      HasSubstr("share a key"));
}

TEST(ManifestText, RefusesDeepAndRepeatedJson) {
  const auto sealed = [](const std::string& body) {
    return body + ",\n\"manifest_sha256\": \"" + sha256_hex(body) + "\"\n}\n";
  };
  EXPECT_THAT(manifest_refusal(sealed("{\"recipe\": " + std::string(100'000, '['))), HasSubstr("nested"));
  std::string body = to_text(example());
  body.resize(body.find(",\n\"manifest_sha256\""));
  EXPECT_THAT(manifest_refusal(sealed(body + std::string("\n}\0more", 7))), HasSubstr("NUL"));
  EXPECT_THAT(manifest_refusal(sealed("{\"step\": 1, \"step\": 2")), HasSubstr("twice"));
  EXPECT_THAT(manifest_refusal(sealed("{\"run\": \"" + std::string(2 << 20, 'x') + "\"")),
              HasSubstr("too long"));
}

TEST(ManifestText, FileReportsTravelAsJson) {
  RecordingFileSystem disk;
  disk.make_folders("/c");
  for (const FileReport& report : write_test_files(disk, "/c", 1)) {
    const nlohmann::json json = to_json(report);
    EXPECT_EQ(to_json(file_report_from_json(nlohmann::json::parse(json.dump()), "peer")), json);
    nlohmann::json wrong = json;
    wrong["shards"][0]["dtype"] = "F31";
    EXPECT_EQ(error_of([&] { file_report_from_json(wrong, "peer"); }).code(), ExitCode::kCheckpoint);
  }
}

}  // namespace
}  // namespace longhaul::storage
