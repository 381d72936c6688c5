#include "storage/safetensors.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/checksum.h"
#include "files_for_tests.h"
#include "support/storage/recording_file_system.h"

namespace longhaul::storage {
namespace {

using ::testing::HasSubstr;

std::string with_length(uint64_t length, const std::string& rest) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i) & 0xff);
  return file + rest;
}

std::string file_of(const std::string& header, size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\x01'));
}

void put(FileSystem& files, const std::string& path, const std::string& content) {
  const auto writer = files.create(path);
  writer->write(std::as_bytes(std::span(content.data(), content.size())));
  writer->close();
}

// The error of opening a file with this content; every one of them must have exit code 66 and name the file.
std::string refusal(const std::string& content, const SafetensorsLimits& limits = {}) {
  RecordingFileSystem disk;
  put(disk, "/file.safetensors", content);
  const Error error = error_of([&] { SafetensorsFile::open(disk, "/file.safetensors", limits); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("/file.safetensors"));
  return error.what();
}

std::string one(const std::string& fields, const std::string& name = "a") {
  return "{\"" + name + "\":{" + fields + "}}";
}

TEST(SafetensorsMalformed, Lengths) {
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("too short"));
  EXPECT_THAT(refusal(with_length(0, "")), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(with_length(0, "{}")), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(with_length(1, "{")), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(with_length(uint64_t{1} << 63, "{}")), HasSubstr("header is too long"));
  EXPECT_THAT(refusal(with_length(~uint64_t{0}, "{}")), HasSubstr("header is too long"));
  EXPECT_THAT(refusal(with_length(1000, "{}")), HasSubstr("beyond the end"));
  EXPECT_THAT(refusal(with_length((16 << 20) + 1, std::string((16 << 20) + 100, ' '))),
              HasSubstr("header is too long"));
  // N counts past the header into the data.
  const std::string header = one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])");
  refusal(with_length(header.size() + 2, header + "abcdef"));
  EXPECT_THAT(refusal(with_length(header.size() + 1, header + std::string(5, '\0'))), HasSubstr("NUL"));
  EXPECT_THAT(refusal(file_of("{}", 0), {.total_bytes = 9}), HasSubstr("too large"));
}

TEST(SafetensorsMalformed, Json) {
  const std::string good = one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])");
  EXPECT_THAT(refusal(file_of(" " + good, 4)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(file_of("[1,2]", 0)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(file_of("\xEF\xBB\xBF" + good, 4)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", "a\xff\xfe"), 4)),
              HasSubstr("JSON"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", "\xc0\xaf"), 4)),
              HasSubstr("JSON"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])", R"(\ud800)"), 4)),
              HasSubstr("JSON"));
  for (size_t cut = 1; cut < good.size(); ++cut) refusal(file_of(good.substr(0, cut), 4));
  refusal(file_of(good + "x", 4));
  refusal(file_of(good + "{}", 4));
  refusal(file_of(std::string("{\"a\":") + std::string(2'000'000, '['), 0));
  refusal(file_of("{\"a\":" + std::string(1'000'000, '{'), 0));
  std::string nested = "{\"a\":{\"shape\":";
  for (int i = 0; i < 500'000; ++i) nested += "[";
  refusal(file_of(nested, 0));
  refusal(file_of("{\"a\":null}", 0));
  refusal(file_of("{\"a\":true}", 0));
  refusal(file_of("{\"a\":\"F32\"}", 0));
  refusal(file_of(one(R"("dtype":1,"shape":[4],"data_offsets":[0,4])"), 4));
  refusal(file_of(one(R"("dtype":"U8","shape":4,"data_offsets":[0,4])"), 4));
  refusal(file_of(one(R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])"), 4));
  refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0])"), 4));
  refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"), 4));
  refusal(file_of(one(R"("dtype":"U8","shape":[4])"), 4));
  refusal(file_of(one(R"("dtype":"U8","data_offsets":[0,4])"), 4));
  refusal(file_of(one(R"("shape":[4],"data_offsets":[0,4])"), 4));
  refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"extra":1)"), 4));
}

TEST(SafetensorsMalformed, RepeatedKeys) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_THAT(refusal(file_of("{" + a + "," + a + "}", 4)), HasSubstr("twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0)), HasSubstr("twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0)), HasSubstr("twice"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])"), 4)),
              HasSubstr("twice"));
}

TEST(SafetensorsMalformed, NumberForms) {
  for (const std::string number :
       {"4.0", "4e0", "0.4e1", "-4", "-0", "9007199254740993", "18446744073709551615", "18446744073709551616",
        "1e400", "04", "+4", "0x4", "NaN", "Infinity", "9223372036854775808"}) {
    SCOPED_TRACE(number);
    refusal(file_of(one(R"("dtype":"U8","shape":[)" + number + R"(],"data_offsets":[0,4])"), 4));
    refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[0,)" + number + "])"), 4));
    refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[)" + number + ",4])"), 4));
  }
}

TEST(SafetensorsMalformed, Ranges) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + first +
           "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + second + "}}";
  };
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), 4)),
              HasSubstr("tensor 'a'"));
  EXPECT_THAT(refusal(file_of(two("[0,4]", "[0,4]"), 4)), HasSubstr("follow one another"));
  EXPECT_THAT(refusal(file_of(two("[0,4]", "[2,6]"), 6)), HasSubstr("tensor 'b'"));
  EXPECT_THAT(refusal(file_of(two("[0,4]", "[5,9]"), 9)), HasSubstr("follow one another"));
  EXPECT_THAT(refusal(file_of(two("[1,5]", "[5,9]"), 9)), HasSubstr("tensor 'a'"));
  EXPECT_THAT(refusal(file_of(two("[0,4]", "[4,8]"), 9)), HasSubstr("size does not match"));
  EXPECT_THAT(refusal(file_of(two("[0,4]", "[4,8]"), 7)), HasSubstr("size does not match"));
  EXPECT_THAT(refusal(file_of("{}", 1)), HasSubstr("size does not match"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[5],"data_offsets":[0,4])"), 4)),
              HasSubstr("size of its shape"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[0],"data_offsets":[0,4])"), 4)),
              HasSubstr("size of its shape"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[],"data_offsets":[0,4])"), 4)),
              HasSubstr("size of its shape"));
}

TEST(SafetensorsMalformed, ShapesAndTypes) {
  const std::string big = "4611686018427387904";
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[)" + big + ",4],\"data_offsets\":[0,0]"), 0)),
              HasSubstr("too large"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"F64","shape":[)" + big + "],\"data_offsets\":[0,0]"), 0)),
              HasSubstr("too large"));
  EXPECT_THAT(
      refusal(file_of(one(R"("dtype":"U8","shape":[)" + big + "," + big + ",0],\"data_offsets\":[0,0]"), 0)),
      HasSubstr("too large"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), 4)),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), 4)),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2)),
              HasSubstr("whole bytes"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2])"), 2)),
              HasSubstr("whole bytes"));
  EXPECT_THAT(refusal(file_of(one(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), 1)),
              HasSubstr("dimensions"));
}

TEST(SafetensorsMalformed, NamesAndMetadata) {
  const std::string fields = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  refusal(file_of(one(fields, ""), 4));
  refusal(file_of(one(fields, std::string(1 << 20, 'n')), 4));
  refusal(file_of(one(fields, std::string(513, 'n')), 4));
  refusal(file_of(one(fields, R"(a\u0000b)"), 4));
  refusal(file_of(R"({"__metadata__":{"k":1}})", 0));
  refusal(file_of(R"({"__metadata__":{"k":null}})", 0));
  refusal(file_of(R"({"__metadata__":{"k":{"l":"m"}}})", 0));
  refusal(file_of(R"({"__metadata__":{"k":["m"]}})", 0));
  refusal(file_of(R"({"__metadata__":"text"})", 0));
  refusal(file_of("{\"__metadata__\":{\"k\":\"" + std::string(17 << 20, 'x') + "\"}}", 0));
  EXPECT_THAT(
      refusal(
          file_of(
              R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
              0),
          {.tensors = 1}),
      HasSubstr("too many tensors"));
}

TEST(SafetensorsMalformed, ManyTensorsOnTheSameBytes) {
  std::string header = "{";
  for (int i = 0; header.size() < (15 << 20); ++i) {
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[1000000],\"data_offsets\":[0,1000000]}}",
                          i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(refusal(file_of(header + "}", 1'000'000)), HasSubstr("follow one another"));
}

TEST(SafetensorsAccepts, UnusualButLegal) {
  RecordingFileSystem disk;
  // Names are never paths; NaN bytes, empty tensors, scalars, any order of keys and offsets, spaces behind
  // the header.
  put(disk, "/f",
      file_of(
          R"({"../../etc/passwd":{"shape":[],"data_offsets":[3,7],"dtype":"F32"},"/abs":{"dtype":"BF16","shape":[0,9],)"
          R"("data_offsets":[3,3]},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"__metadata__":{"k":"v"}}   )",
          7));
  const auto file = SafetensorsFile::open(disk, "/f");
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.read("../../etc/passwd").size(), 4u);
  EXPECT_EQ(file.read("/abs").size(), 0u);
  EXPECT_EQ(file.metadata().at("k"), "v");
  EXPECT_EQ(disk.list("/").size(), 1u);
  put(disk, "/empty", file_of("{}", 0));
  EXPECT_TRUE(SafetensorsFile::open(disk, "/empty").tensors().empty());
  EXPECT_THAT(error_of([&] { file.at("missing"); }).what(), HasSubstr("missing"));
}

TEST(SafetensorsAccepts, FileThatShrinksIsAnErrorNotZeros) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "longhaul-shrink";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "f.safetensors").string();
  put(local_file_system(), path,
      file_of(one(R"("dtype":"U8","shape":[40000],"data_offsets":[0,40000])"), 40000));
  const auto file = SafetensorsFile::open(local_file_system(), path);
  EXPECT_EQ(file.read("a")[39999], std::byte{1});
  std::filesystem::resize_file(path, 1000);
  EXPECT_EQ(error_of([&] { file.read("a"); }).code(), ExitCode::kCheckpoint);
  std::filesystem::resize_file(path, 1);
  EXPECT_EQ(error_of([&] { file.read("a"); }).code(), ExitCode::kCheckpoint);
  std::filesystem::remove_all(folder);
}

TEST(SafetensorsAccepts, OnlyRegularFiles) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "longhaul-links";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  put(local_file_system(), folder / "real", file_of("{}", 0));
  std::filesystem::create_symlink(folder / "real", folder / "link");
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(local_file_system(), folder / "link"); }).code(),
            ExitCode::kCheckpoint);
  EXPECT_NO_THROW(SafetensorsFile::open(local_file_system(), folder / "link", {}, Links::kFollow));
  for (const std::filesystem::path& path : {folder, std::filesystem::path("/dev/zero"), folder / "missing"}) {
    EXPECT_EQ(error_of([&] { SafetensorsFile::open(local_file_system(), path); }).code(),
              ExitCode::kCheckpoint)
        << path;
  }
  std::filesystem::remove_all(folder);
}

TEST(SafetensorsWriting, AllTypesRoundTrip) {
  RecordingFileSystem disk;
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorData> tensors;
  contents.reserve(3 * kDTypeCount);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 6}, {0, 3}, {8}}) {
      const auto name = fmt::format("{}/{}", name_of(dtype), shape.size() + static_cast<size_t>(shape[0]));
      contents.push_back(
          random_bytes(static_cast<size_t>(tensor_bytes(dtype, shape, name)), contents.size()));
      tensors.push_back({name, dtype, shape, contents.back()});
    }
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
  }
  const WrittenFile written =
      write_safetensors(disk, "/f.safetensors", tensors, {{"key", "va\"lue\n\u00e9"}});
  const auto file = SafetensorsFile::open(disk, "/f.safetensors");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("key"), "va\"lue\n\u00e9");
  EXPECT_EQ(file.data_begin() % 8, 0);
  for (const TensorData& tensor : tensors) {
    EXPECT_EQ(file.at(tensor.name).dtype, tensor.dtype);
    EXPECT_EQ(file.at(tensor.name).shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(file.read(tensor.name), tensor.data)) << tensor.name;
    EXPECT_EQ(written.crc32c.at(tensor.name), crc32c(tensor.data));
  }
  for (size_t i = 1; i < file.tensors().size(); ++i) {
    const TensorInfo &a = file.tensors()[i - 1], &b = file.tensors()[i];
    EXPECT_TRUE(a.dtype > b.dtype || (a.dtype == b.dtype && a.name < b.name))
        << a.name << " before " << b.name;
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.read_raw(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  EXPECT_EQ(written.sha256, sha256_hex(bytes));
  EXPECT_EQ(written.bytes, file.size());
  EXPECT_EQ(disk.list("/").size(), 1u) << "no temporary file stays";
}

TEST(SafetensorsWriting, PiecesAndAlignment) {
  RecordingFileSystem disk;
  const auto data = random_bytes(3 << 20, 5);
  SafetensorsWriter writer(disk, "/f",
                           {{.name = "b", .dtype = DType::kU8, .shape = {1}},
                            {.name = "e", .dtype = DType::kF64, .shape = {0}},
                            {.name = "a", .dtype = DType::kU8, .shape = {(3 << 20) - 1}}},
                           {}, 4096);
  EXPECT_EQ(writer.tensors()[1].name, "a");
  for (size_t at = 0; at < data.size();) {
    const size_t count = std::min<size_t>(data.size() - at, 1 + at % 70'001 * 7);
    writer.write(std::span(data).subspan(at, count));
    at += count;
  }
  writer.finish();
  const auto file = SafetensorsFile::open(disk, "/f");
  EXPECT_EQ(file.data_begin() % 4096, 0);
  EXPECT_TRUE(std::ranges::equal(file.read("a"), std::span(data).first(data.size() - 1)));
  EXPECT_EQ(file.read("b")[0], data.back());
  EXPECT_EQ(file.read("e").size(), 0u);
}

TEST(SafetensorsWriting, RefusesWhatItCouldNotReadAgain) {
  RecordingFileSystem disk;
  const std::byte byte{1};
  const auto name_refused = [&](const std::string& name) {
    return error_of([&] {
             write_safetensors(disk, "/f", std::vector<TensorData>{{name, DType::kU8, {1}, {&byte, 1}}});
           }).code() == ExitCode::kCheckpoint;
  };
  EXPECT_TRUE(name_refused(""));
  EXPECT_TRUE(name_refused("\xff"));
  EXPECT_TRUE(name_refused(std::string(513, 'x')));
  EXPECT_TRUE(name_refused("__metadata__"));
  EXPECT_TRUE(disk.list("/").empty());
}

}  // namespace
}  // namespace longhaul::storage
