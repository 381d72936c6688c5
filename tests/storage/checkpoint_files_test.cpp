#include "storage/checkpoint_files.h"

#include <gmock/gmock.h>

#include <cmath>

#include "files_for_tests.h"
#include "storage/diff.h"
#include "support/storage/recording_file_system.h"
#include "support/storage/wrapped_file_system.h"

namespace longhaul::storage::checkpoint_files_test {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kFolder = "/run/checkpoints";

// fp32 0, 1, 2, … of a [rows, columns] matrix, cut into a grid over two files.
std::filesystem::path save_grid(FileSystem& files, int64_t step, int64_t rows, int64_t columns,
                                int64_t row_cuts, int64_t column_cuts,
                                const std::function<float(int64_t)>& value) {
  std::vector<std::vector<float>> contents;
  std::vector<ShardSource> halves[2];
  for (int64_t i = 0; i < row_cuts; ++i) {
    for (int64_t j = 0; j < column_cuts; ++j) {
      const int64_t r0 = rows * i / row_cuts, r1 = rows * (i + 1) / row_cuts;
      const int64_t c0 = columns * j / column_cuts, c1 = columns * (j + 1) / column_cuts;
      std::vector<float>& content = contents.emplace_back();
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) content.push_back(value(r * columns + c));
      }
      halves[(i + j) % 2].push_back({.tensor = "w",
                                     .shape = {rows, columns},
                                     .dtype = DType::kF32,
                                     .role = "weight",
                                     .offset = {r0, c0},
                                     .length = {r1 - r0, c1 - c0}});
    }
  }
  size_t next[2] = {0, 0};
  for (size_t k = 0; k < contents.size(); ++k) {
    const auto half = static_cast<size_t>(
        (static_cast<int64_t>(k) / column_cuts + static_cast<int64_t>(k) % column_cuts) % 2);
    halves[half][next[half]++].data = std::as_bytes(std::span(contents[k]));
  }
  CheckpointWriter writer(files, kFolder, step, 1);
  for (int half = 0; half < 2; ++half) {
    writer.add(write_checkpoint_file(files, writer.folder(), fmt::format("rank-{:05}.safetensors", half),
                                     halves[half]));
  }
  return writer.commit({.run_id = "grid", .world = 2});
}

TEST(CheckpointReading, AnyRectangleFromAnyLayout) {
  RecordingFileSystem disk;
  constexpr int64_t kRows = 13, kColumns = 10;
  const RandomStream random(3, "test/rectangles");
  for (const auto& [row_cuts, column_cuts] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {4, 1}, {1, 5}, {3, 4}, {13, 10}, {16, 2}}) {
    const auto path = save_grid(disk, row_cuts * 100 + column_cuts, kRows, kColumns, row_cuts, column_cuts,
                                [](int64_t i) { return static_cast<float>(i); });
    const Checkpoint checkpoint = Checkpoint::open(disk, path);
    checkpoint.verify();
    for (uint64_t trial = 0; trial < 60; ++trial) {
      const auto at = [&](uint64_t k, int64_t bound) {
        return static_cast<int64_t>(random.below(trial * 4 + k, static_cast<uint64_t>(bound)));
      };
      layout::Rectangle needed{.offset = {at(0, kRows), at(1, kColumns)}, .length = {0, 0}};
      needed.length = {1 + at(2, kRows - needed.offset[0]), 1 + at(3, kColumns - needed.offset[1])};
      std::vector<float> into(static_cast<size_t>(needed.volume()), -1);
      checkpoint.read("w", needed, std::as_writable_bytes(std::span(into)));
      for (int64_t r = 0; r < needed.length[0]; ++r) {
        for (int64_t c = 0; c < needed.length[1]; ++c) {
          ASSERT_EQ(into[static_cast<size_t>(r * needed.length[1] + c)],
                    static_cast<float>((needed.offset[0] + r) * kColumns + needed.offset[1] + c))
              << needed.text();
        }
      }
    }
  }
}

TEST(CheckpointReading, WholeTensorsKeepTheirNamesForOtherReaders) {
  RecordingFileSystem disk;
  const auto path = save_test_checkpoint(disk, kFolder, 12, 1, 7);
  EXPECT_EQ(path.filename(), "step-000000012");
  EXPECT_NE(SafetensorsFile::open(disk, path / "rank-00000.safetensors").find("norm"), nullptr);
  EXPECT_NE(SafetensorsFile::open(disk, path / "rank-00000.safetensors").find("layers.0.weight[0:4,0:4]"),
            nullptr);
  const Checkpoint checkpoint = Checkpoint::open(disk, path);
  EXPECT_EQ(checkpoint.read_tensor("layers.0.weight"), random_bytes(96, 7));
  EXPECT_EQ(checkpoint.read_tensor("optimizer.count"), random_bytes(8, 9));
  EXPECT_THAT(error_of([&] { checkpoint.at("layers.9.weight"); }).what(), HasSubstr("layers.9.weight"));
}

TEST(CheckpointDamage, AFlippedBitAnywhereIsNoticedAndNamed) {
  RecordingFileSystem disk;
  const auto path = save_grid(disk, 12, 40, 30, 4, 1, [](int64_t i) { return static_cast<float>(i); });
  for (const std::string name : {"rank-00000.safetensors", "rank-00001.safetensors", "manifest.json"}) {
    const int64_t stride = name == kManifestName ? 1 : 97;
    const int64_t data_begin =
        name == kManifestName ? 0 : SafetensorsFile::open(disk, path / name).data_begin();
    for (int64_t byte = 0; byte < disk.file_bytes(path / name); byte += stride) {
      const int bit = static_cast<int>(byte % 8);
      disk.flip_bit(path / name, byte, bit);
      const Error error = error_of([&] { Checkpoint::open(disk, path).verify(); });
      ASSERT_EQ(error.code(), ExitCode::kCheckpoint) << name << " byte " << byte;
      EXPECT_THAT(error.what(), HasSubstr(name));
      if (name != kManifestName && byte >= data_begin) {
        EXPECT_THAT(error.what(), HasSubstr("tensor 'w'"));
      }
      disk.flip_bit(path / name, byte, bit);
    }
  }
  Checkpoint::open(disk, path).verify();
}

// Metadata belong to no tensor, so no crc32c covers them and the header still reads: the file's own hash is
// all there is.
TEST(CheckpointDamage, AChangedLetterOfTheMetadataIsNoticed) {
  RecordingFileSystem disk;
  const auto path = save_test_checkpoint(disk, kFolder, 12, 1, 7) / "rank-00001.safetensors";
  const std::string text = read_small_file(disk, path, ExitCode::kDisk, 1 << 20);
  const size_t letter = text.find("longhaul-checkpoint");
  ASSERT_NE(letter, std::string::npos);
  disk.flip_bit(path, static_cast<int64_t>(letter), 0);
  const Checkpoint checkpoint = Checkpoint::open(disk, path.parent_path());
  EXPECT_EQ(checkpoint.read_tensor("optimizer.count"), random_bytes(8, 9)) << "the tensors are as they were";
  const Error error = error_of([&] { checkpoint.verify(); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
  EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("rank-00001.safetensors"), HasSubstr("sha256")));
}

TEST(CheckpointDamage, MissingShortLongSwappedAndStaleFiles) {
  const auto damaged =
      [](const std::function<void(RecordingFileSystem&, const std::filesystem::path&)>& damage) {
        RecordingFileSystem disk;
        const auto path = save_test_checkpoint(disk, kFolder, 12, 1, 7);
        save_test_checkpoint(disk, kFolder, 13, 1, 8);
        damage(disk, path);
        const Error error = error_of([&] { Checkpoint::open(disk, path).verify(); });
        EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << error.what();
        return std::string(error.what());
      };
  const auto rewrite = [](RecordingFileSystem& disk, const std::filesystem::path& path, int64_t bytes) {
    std::string content = read_small_file(disk, path, ExitCode::kDisk, 1 << 20);
    content.resize(static_cast<size_t>(bytes), '\0');
    write_synced(disk, path, content);
  };
  EXPECT_THAT(damaged([](auto& disk, auto& path) { disk.remove(path / "rank-00001.safetensors"); }),
              HasSubstr("rank-00001"));
  EXPECT_THAT(damaged([](auto& disk, auto& path) { disk.remove(path / kManifestName); }),
              HasSubstr(kManifestName));
  for (const int64_t change : {-9, -1, 1, 4096}) {
    EXPECT_THAT(damaged([&](auto& disk, auto& path) {
                  rewrite(disk, path / "rank-00000.safetensors",
                          disk.file_bytes(path / "rank-00000.safetensors") + change);
                }),
                HasSubstr("rank-00000.safetensors"));
  }
  damaged([&](auto& disk, auto& path) { rewrite(disk, path / "rank-00000.safetensors", 0); });
  damaged([&](auto& disk, auto& path) {
    disk.rename(path / "rank-00000.safetensors", path / "other");
    disk.rename(path / "rank-00001.safetensors", path / "rank-00000.safetensors");
    disk.rename(path / "other", path / "rank-00001.safetensors");
  });
  // The other save's file has the same size and layout: only checksums can tell.
  EXPECT_THAT(damaged([&](auto& disk, auto& path) {
                disk.rename(path.parent_path() / name_of_save(13, 1) / "rank-00000.safetensors",
                            path / "rank-00000.safetensors");
              }),
              HasSubstr("rank-00000.safetensors"));
  damaged([&](auto& disk, auto& path) {
    disk.rename(path.parent_path() / name_of_save(13, 1) / kManifestName, path / kManifestName);
  });
}

TEST(CheckpointDiffing, NamesWhatDiffersAndHowMuch) {
  RecordingFileSystem disk;
  const auto value = [](int64_t i) { return static_cast<float>(i) * 0.5f; };
  const Checkpoint left = Checkpoint::open(disk, save_grid(disk, 1, 9, 7, 3, 1, value));
  const Checkpoint same = Checkpoint::open(disk, save_grid(disk, 2, 9, 7, 2, 5, value));
  EXPECT_TRUE(diff(left, same).same()) << "how a tensor was cut does not matter";
  EXPECT_EQ(diff(left, same).equal, 1);
  const Checkpoint right =
      Checkpoint::open(disk, save_grid(disk, 3, 9, 7, 1, 1, [&](int64_t i) {
                         return i == 40 ? value(i) + 2.25f : i == 50 ? value(i) - 1 : value(i);
                       }));
  const CheckpointDifference values = diff(left, right);
  ASSERT_EQ(values.tensors.size(), 1u);
  EXPECT_EQ(values.tensors[0].different, 2);
  EXPECT_EQ(values.tensors[0].first_different, 40);
  EXPECT_EQ(values.tensors[0].maximum, 2.25);
  EXPECT_EQ(values.tensors[0].elements, 63);
  const Checkpoint nan = Checkpoint::open(
      disk, save_grid(disk, 4, 9, 7, 1, 1, [&](int64_t i) { return i == 3 ? NAN : value(i); }));
  EXPECT_TRUE(std::isinf(diff(left, nan).tensors.at(0).maximum));
  EXPECT_TRUE(diff(nan, nan).same());
  const Checkpoint shape = Checkpoint::open(disk, save_grid(disk, 5, 7, 9, 1, 1, value));
  EXPECT_EQ(diff(left, shape).tensors.at(0).kind, TensorDifference::Kind::kShape);
  const Checkpoint other = Checkpoint::open(disk, save_test_checkpoint(disk, kFolder, 6, 1, 7));
  const auto missing = diff(left, other).tensors;
  ASSERT_EQ(missing.size(), 4u);
  EXPECT_EQ(missing[3].name, "w");
  EXPECT_EQ(missing[3].kind, TensorDifference::Kind::kOnlyLeft);
  EXPECT_EQ(missing[0].kind, TensorDifference::Kind::kOnlyRight);
}

TEST(CheckpointDiffing, EveryNumericTypeAsNumbers) {
  struct Case {
    DType dtype;
    std::vector<uint8_t> left, right;
    double maximum;
  };
  const std::vector<Case> cases = {
      {DType::kBF16, {0x80, 0x3f}, {0x00, 0xc0}, 3},       // 1, -2
      {DType::kF16, {0x00, 0x3c}, {0x00, 0xc0}, 3},        // 1, -2
      {DType::kF16, {0x01, 0x00}, {0x00, 0x00}, 0x1p-24},  // smallest subnormal
      {DType::kF32, {0, 0, 0x80, 0x3f}, {0, 0, 0, 0xc0}, 3},
      {DType::kF64, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, {0, 0, 0, 0, 0, 0, 0, 0xc0}, 3},
      {DType::kI8, {0xff}, {0x01}, 2},
      {DType::kU8, {0xff}, {0x01}, 254},
      {DType::kI16, {0xff, 0xff}, {1, 0}, 2},
      {DType::kU16, {0xff, 0xff}, {1, 0}, 65534},
      {DType::kI32, {0xff, 0xff, 0xff, 0xff}, {1, 0, 0, 0}, 2},
      {DType::kU32, {0xff, 0xff, 0xff, 0xff}, {1, 0, 0, 0}, 4294967294.0},
      {DType::kI64, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, 0, 0, 0, 0, 0, 0, 0}, 2},
      {DType::kI64, {0, 0, 0, 0, 0, 0, 0, 0x80}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 0x1p64},
      {DType::kU64, {1, 0, 0, 0, 0, 0, 0x20, 0}, {0, 0, 0, 0, 0, 0, 0x20, 0}, 1},
      {DType::kC64, {0, 0, 0x80, 0x3f, 0, 0, 0, 0}, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, 2},
  };
  RecordingFileSystem disk;
  int64_t step = 0;
  for (const Case& c : cases) {
    const auto save = [&](const std::vector<uint8_t>& bytes) {
      const ShardSource shard{.tensor = "x",
                              .shape = {1},
                              .dtype = c.dtype,
                              .offset = {0},
                              .length = {1},
                              .data = std::as_bytes(std::span(bytes))};
      CheckpointWriter writer(disk, kFolder, ++step, 1);
      writer.add(write_checkpoint_file(disk, writer.folder(), "a.safetensors", {&shard, 1}));
      return Checkpoint::open(disk, writer.commit({}));
    };
    const Checkpoint left = save(c.left), right = save(c.right);
    EXPECT_EQ(diff(left, right).tensors.at(0).maximum, c.maximum) << name_of(c.dtype);
  }
}

// Counts what is open at once, and lets no more be opened than a process may.
class CountingOpen final : public WrappedFileSystem {
 public:
  explicit CountingOpen(FileSystem& inner, int64_t most) : WrappedFileSystem(inner), most_(most) {}
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                   Links links = Links::kRefuse) const override {
    class Reader final : public FileReader {
     public:
      Reader(std::unique_ptr<FileReader> inner, int64_t& open) : inner_(std::move(inner)), open_(open) {
        ++open_;
      }
      ~Reader() override { --open_; }
      int64_t size() const override { return inner_->size(); }
      void read_exactly(int64_t offset, std::span<std::byte> into) const override {
        inner_->read_exactly(offset, into);
      }

     private:
      std::unique_ptr<FileReader> inner_;
      int64_t& open_;
    };
    if (open_ >= most_)
      throw Error({.code = ExitCode::kDisk, .what = "cannot open the file", .found = "Too many open files"});
    return std::make_unique<Reader>(inner_.open(path, missing, links), open_);
  }

 private:
  int64_t most_;
  mutable int64_t open_ = 0;
};

// Of a hundred ranks there are a hundred files and more.
std::filesystem::path save_many_files(FileSystem& files, int64_t count) {
  CheckpointWriter writer(files, kFolder, 7, 1);
  const auto data = random_bytes(static_cast<size_t>(count) * 4, 1);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<ShardSource> shards = {
        {.tensor = "w",
         .shape = {count},
         .dtype = DType::kF32,
         .role = "weight",
         .offset = {i},
         .length = {1},
         .data = std::span(data).subspan(static_cast<size_t>(i) * 4, 4)}};
    writer.add(
        write_checkpoint_file(files, writer.folder(), fmt::format("rank-{:05}.safetensors", i), shards));
  }
  return writer.commit({.run_id = "many", .world = count});
}

TEST(CheckpointReading, FewFilesAreOpenAtATime) {
  RecordingFileSystem disk;
  const auto path = save_many_files(disk, 100);
  const CountingOpen counting(disk, static_cast<int64_t>(ReaderPool::kMostOpen) + 1);  // and the manifest
  const Checkpoint first = Checkpoint::open(counting, path);
  first.verify();
  EXPECT_EQ(first.read_tensor("w"), random_bytes(400, 1));
  EXPECT_EQ(first.read_tensor("w"), random_bytes(400, 1)) << "files that were closed are opened again";
}

TEST(CheckpointReading, TooManyOpenFilesAreNoDefect) {
  RecordingFileSystem disk;
  save_many_files(disk, 3);
  const CountingOpen counting(disk, 2);
  for (const Error& error : {error_of([&] { list_checkpoints(counting, kFolder); }),
                             error_of([&] { find_newest_valid(counting, kFolder); })}) {
    EXPECT_EQ(error.code(), ExitCode::kDisk);
    EXPECT_EQ(error.fields().found, "Too many open files");
  }
}

// Who needs the weights needs nothing of the optimizer's files: neither whole, nor at all.
TEST(CheckpointReading, OfOneRoleOnlyItsFilesCount) {
  RecordingFileSystem disk;
  CheckpointWriter writer(disk, kFolder, 12, 1);
  const auto weights = random_bytes(64, 1), moments = random_bytes(64, 2);
  const auto add = [&](const char* file, const char* tensor, const char* role,
                       const std::vector<std::byte>& data) {
    const std::vector<ShardSource> shards = {{.tensor = tensor,
                                              .shape = {16},
                                              .dtype = DType::kF32,
                                              .role = role,
                                              .offset = {0},
                                              .length = {16},
                                              .data = data}};
    writer.add(write_checkpoint_file(disk, writer.folder(), file, shards));
  };
  add("model.safetensors", "w", "weight", weights);
  add("optimizer.safetensors", "optimizer.m.w", "optimizer.m", moments);
  const auto path = writer.commit({.run_id = "roles", .world = 1});
  const auto damaged = path / "optimizer.safetensors";
  disk.flip_bit(damaged, disk.file_bytes(damaged) - 1, 0);
  EXPECT_EQ(error_of([&] { open_checkpoint(disk, kFolder, Depth::kContents); }).code(),
            ExitCode::kCheckpoint);
  EXPECT_EQ(open_checkpoint(disk, kFolder, Depth::kContents, "weight").read_tensor("w"), weights);
  disk.remove(damaged);
  EXPECT_EQ(error_of([&] { open_checkpoint(disk, kFolder); }).code(), ExitCode::kCheckpoint);
  EXPECT_EQ(open_checkpoint(disk, kFolder, Depth::kContents, "weight").read_tensor("w"), weights);
  const auto model = path / "model.safetensors";
  disk.flip_bit(model, disk.file_bytes(model) - 1, 0);
  const Error error = error_of([&] { open_checkpoint(disk, path, Depth::kContents, "weight"); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
  EXPECT_THAT(error.fields().hint, HasSubstr("checkpoint verify"));
}

}  // namespace
}  // namespace longhaul::storage::checkpoint_files_test
