// ctest: label=full timeout=400
// Checkpoints in the memory of nodes: saved by ranks on some nodes, gone on from on what is left of them.
// Nodes are folders; those of one machine reach each other's, others exchange files through the communicator.
// Whatever is lost, torn or damaged, the bits are those of the newest step of which every piece is whole
// somewhere, or there is none.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <mutex>
#include <set>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/memory_tier/memory_recovery.h"
#include "checkpoint/memory_tier/memory_saver.h"
#include "checkpoint/memory_tier/survivors.h"
#include "ranks_for_tests.h"
#include "support/storage/fault_file_system.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;
using layout::Mesh;
using storage::SavedMoment;
using ::testing::HasSubstr;

constexpr const char* kRun = "memory run";

enum class Machines { kOne, kOneEach };

// A mesh on nodes of so many ranks each.
struct Cluster {
  Mesh mesh;
  int64_t ranks_a_node = 1;
  Machines machines = Machines::kOne;
  std::string names = "abcdefgh";  // of its nodes
};

class MemoryTier : public ::testing::Test {
 protected:
  TierPlace place(const Cluster& cluster, int64_t rank) const {
    const auto node = static_cast<size_t>(rank / cluster.ranks_a_node);
    const std::string name(1, cluster.names[node]);
    return {
        .tier = folder / name, .node = name, .machine = cluster.machines == Machines::kOne ? 1 : 1 + node};
  }

  // All ranks hold what `seed` fills a whole model with, and save it. What each was told.
  std::vector<MemorySaveResult> save(const Cluster& cluster, int64_t step, uint64_t seed,
                                     int64_t generation = 1, int64_t replicas = 1) {
    seeds_[{generation, step}] = seed;
    std::vector<MemorySaveResult> results(static_cast<size_t>(cluster.mesh.world()));
    comm::run_ranks(cluster.mesh.world(), [&](comm::Communicator& world) {
      const Writers ranks(group_of_writers(world));
      const TierNodes nodes(ranks, place(cluster, world.rank()));
      RankTraining training({cluster.mesh, world.rank()});
      for (StateEntry& entry : tensors_of(training.state))
        entry.view.copy_(box_of(wholes(seed).at(entry.name), entry.held));
      training.optimizer->set_steps(step);
      storage::FileSystem& files =
          world.rank() == faulty_rank ? static_cast<storage::FileSystem&>(faulty) : disk;
      MemorySaver saver(files, nodes,
                        {.run = kRun,
                         .generation = generation,
                         .replicas = replicas,
                         .mesh = cluster.mesh,
                         .available_bytes = [this] { return available; }},
                        group_of_writers(world));
      CopyOut copies;
      saver.save(step, copies.take(tensors_of(training.state), Changes::kInUpdates),
                 {.run_id = kRun, .state = facts_of(training.state)});
      copies.settle();
      results[static_cast<size_t>(world.rank())] = *saver.wait();
    });
    return results;
  }

  // Ranks end while they hold what `seed` fills a whole model with: those of `survivors` leave it.
  void leave(const Cluster& cluster, int64_t step, uint64_t seed, const std::set<int64_t>& survivors,
             int64_t generation = 1) {
    seeds_[{generation, step}] = seed;
    comm::run_ranks(cluster.mesh.world(), [&](comm::Communicator& world) {
      if (!survivors.contains(world.rank())) return;
      RankTraining training({cluster.mesh, world.rank()});
      for (StateEntry& entry : tensors_of(training.state))
        entry.view.copy_(box_of(wholes(seed).at(entry.name), entry.held));
      training.optimizer->set_steps(step);
      const storage::NodeTier tier(disk, place(cluster, world.rank()).tier, kRun);
      leave_state(disk, tier, {generation, step}, world.rank(), world.size(), tensors_of(training.state),
                  {.run_id = kRun, .state = facts_of(training.state)});
    });
  }

  // The step that ranks find, or −1; what they then hold must be what was saved then.
  int64_t load(const Cluster& cluster, SavedMoment at_least = {}) {
    int64_t step = -1;
    comm::run_ranks(cluster.mesh.world(), [&](comm::Communicator& world) {
      const Writers ranks(group_of_writers(world));
      const TierNodes nodes(ranks, place(cluster, world.rank()));
      RankTraining training({cluster.mesh, world.rank()});
      storage::FileSystem& files =
          world.rank() == faulty_rank ? static_cast<storage::FileSystem&>(faulty) : disk;
      take_what_survivors_left(files, ranks, nodes, kRun);
      const auto found = newest_in_memory(files, ranks, nodes, kRun, training.state, at_least);
      if (!found) return;
      load_training_state(*found, training.state, &world);
      const auto& manifest = found->manifest();
      expect_boxes_of(wholes(seeds_.at({manifest.generation, manifest.step})), training);
      EXPECT_EQ(training.optimizer->steps(), found->manifest().step);
      if (world.rank() == 0) step = found->manifest().step;
    });
    return step;
  }

  const std::map<std::string, Tensor>& wholes(uint64_t seed) {
    const std::scoped_lock lock(mutex);
    auto& known = wholes_[seed];
    if (known.empty()) {
      single = std::make_unique<RankTraining>();
      fill(*single, seed);
      for (const auto& [name, whole] : wholes_of(*single)) known[name] = whole.clone();
    }
    return known;
  }

  void lose_node(char name) { fs::remove_all(folder / std::string(1, name)); }
  // Files of a step on a node whose names begin so.
  std::vector<fs::path> files_of(char node, const SavedMoment& moment, const std::string& prefix = "") const {
    std::vector<fs::path> found;
    const fs::path there =
        storage::NodeTier(const_cast<storage::LocalFileSystem&>(disk), folder / std::string(1, node), kRun)
            .folder_of(moment);
    for (const auto& entry : disk.list(there)) {
      if (entry.name.starts_with(prefix) && entry.name != storage::kManifestName)
        found.push_back(there / entry.name);
    }
    return found;
  }
  static void damage(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-5, std::ios::end);
    const char byte = static_cast<char>(file.peek() ^ 4);
    file.seekp(-5, std::ios::end);
    file.put(byte);
  }

  storage::LocalFileSystem disk;
  TemporaryFolder folder;
  storage::FaultFileSystem faulty{disk};
  int64_t faulty_rank = -1;
  int64_t available = std::numeric_limits<int64_t>::max();  // of the machine's memory
  std::mutex mutex;
  std::unique_ptr<RankTraining> single;
  std::map<uint64_t, std::map<std::string, Tensor>> wholes_;
  std::map<SavedMoment, uint64_t> seeds_;  // of what was saved
};

const Cluster kFour{Mesh(4, {.tp = 2}), 1};
const Cluster kFourMachines{Mesh(4, {.tp = 2}), 1, Machines::kOneEach};

// Both ranks of a node write at once: room for one of them is no room.
TEST_F(MemoryTier, TheRanksOfANodeShareItsMemory) {
  const Cluster cluster{Mesh(4, {}), 2};
  int64_t most = 0;  // of a rank's files, a little more than its tensors
  for (const MemorySaveResult& told : save(cluster, 1, 10)) most = std::max(most, told.bytes);
  constexpr int64_t kBeside = int64_t{1} << 20;  // for each rank, beside its own files and a replica's
  available = 3 * most + 2 * kBeside;            // enough for one
  for (const MemorySaveResult& told : save(cluster, 2, 20)) {
    ASSERT_TRUE(told.failure);
    EXPECT_THAT(told.failure->what(), HasSubstr("the node's 2 ranks"));
  }
  EXPECT_EQ(load(cluster), 1) << "the one before stays";
  available = 4 * most + 2 * kBeside;
  for (const MemorySaveResult& told : save(cluster, 3, 30)) EXPECT_FALSE(told.failure);
  EXPECT_EQ(load(cluster), 3);
}

TEST_F(MemoryTier, AllNodesAreLeft) {
  for (const auto& result : save(kFour, 3, 10)) EXPECT_FALSE(result.failure) << result.failure->what();
  EXPECT_EQ(load(kFour), 3);
  EXPECT_EQ(load(kFour, {1, 3}), 3);
  EXPECT_EQ(load(kFour, {1, 4}), -1) << "the disk has a newer one";
  EXPECT_EQ(load(kFour, {2, 0}), -1) << "the disk has one of a later start";
}

TEST_F(MemoryTier, OneProcessOnOneNode) {
  const Cluster alone{Mesh(1, {}), 1};
  save(alone, 1, 10);
  save(alone, 2, 20);
  EXPECT_EQ(files_of('a', {1, 1}).size(), 0u) << "the older one goes";
  EXPECT_EQ(load(alone), 2);
}

// A rank is gone with its node: what it held lies in its replica's memory, and the others' beside it. Bits of
// the step that was done, not of the saved one.
TEST_F(MemoryTier, WhatSurvivorsLeaveIsTheNewest) {
  for (const Cluster& cluster : {kFour, kFourMachines}) {
    for (const int64_t gone : {0, 3}) {
      save(cluster, 5, 30);
      std::set<int64_t> survivors{0, 1, 2, 3};
      survivors.erase(gone);
      leave(cluster, 7, 50, survivors);
      lose_node("abcd"[gone]);
      EXPECT_EQ(load(cluster), 7) << gone;
      EXPECT_EQ(load(cluster), 7) << "it stays for another start";
      EXPECT_EQ(load({Mesh(2, {}), 1, cluster.machines}), 7) << "on fewer";
      for (const char node : {'a', 'b', 'c', 'd'}) lose_node(node);
    }
  }
}

// Both that hold a part are gone: the step before, as it was saved. So it is where a survivor's file is
// damaged, or of another run.
TEST_F(MemoryTier, WhatSurvivorsLeaveMustBeWhole) {
  save(kFour, 5, 30);
  leave(kFour, 7, 50, {0, 2});  // tensor rank 1 of both replicas
  EXPECT_EQ(load(kFour), 5);
  leave(kFour, 8, 60, {0, 1});
  for (const fs::path& file : files_of('a', {1, 8}, "left-model")) damage(file);
  EXPECT_EQ(load(kFour), 5);
  leave(kFour, 9, 70, {2, 3});
  EXPECT_EQ(load(kFour), 9);
  leave(kFour, 11, 80, {0, 1, 2, 3}, /*generation=*/2);
  leave(kFour, 13, 90, {0, 1, 2, 3}, /*generation=*/1);  // of a start that is over: its ranks woke up late
  EXPECT_EQ(load(kFour), 11);
  for (const char node : {'a', 'b', 'c', 'd'})
    EXPECT_TRUE(files_of(node, {1, 13}).empty()) << node << ": the memory of a start that is over";
}

// A step that is committed is not left once more.
// Memory that runs out would take others along: what all ranks of a node hold must fit beside what there is.
TEST_F(MemoryTier, SurvivorsLeaveNothingWhereThereIsNoRoom) {
  RankTraining training;
  const std::vector<StateEntry> entries = tensors_of(training.state);
  int64_t bytes = 0;
  for (const StateEntry& entry : entries) bytes += static_cast<int64_t>(entry.view.nbytes());
  const storage::NodeTier tier(disk, folder / "a", kRun);
  const auto leaves = [&](const LeavingRoom& room) {
    return leave_state(disk, tier, {1, 7}, 0, 1, entries, {.run_id = kRun, .state = facts_of(training.state)},
                       room);
  };
  EXPECT_FALSE(leaves({.ranks_of_node = 2, .available_bytes = 2 * bytes - 1}));
  EXPECT_TRUE(files_of('a', {1, 7}).empty());
  EXPECT_TRUE(leaves({.ranks_of_node = 2, .available_bytes = 2 * bytes}));
  EXPECT_FALSE(files_of('a', {1, 7}).empty());
}

TEST_F(MemoryTier, SurvivorsLeaveACommittedStepAlone) {
  save(kFour, 5, 30);
  leave(kFour, 5, 30, {0, 1, 2});
  EXPECT_EQ(files_of('a', {1, 5}, "left-").size(), 0u);
  EXPECT_EQ(load(kFour), 5);
}

// Without copies (one replica): the files of the failed rank that a checkpoint under way had written make up
// for it.
TEST_F(MemoryTier, WhatAFailedRankHadWrittenCounts) {
  const Cluster cut{Mesh(2, {.tp = 2}), 1};
  save(cut, 4, 20);
  save(cut, 5, 30);
  for (const char node : {'a', 'b'})
    fs::remove(storage::NodeTier(disk, folder / std::string(1, node), kRun).folder_of({1, 5}) /
               storage::kManifestName);
  EXPECT_EQ(load(cut), 5) << "both had written theirs";
  for (const char node : {'a', 'b'}) lose_node(node);
  save(cut, 5, 30);
  for (const char node : {'a', 'b'})
    fs::remove(storage::NodeTier(disk, folder / std::string(1, node), kRun).folder_of({1, 5}) /
               storage::kManifestName);
  for (const fs::path& file : files_of('a', {1, 5})) fs::remove(file);
  for (const fs::path& file : files_of('b', {1, 5}, "model-00001")) fs::remove(file);
  EXPECT_EQ(load(cut), -1) << "rank 0 had not";
  leave(cut, 5, 30, {0});
  EXPECT_EQ(load(cut), 5) << "rank 0 left its part, rank 1 had written its own";
}

// Whichever node is lost, its replicas make up for it, on a fresh node in its place or on fewer nodes and
// another layout.
TEST_F(MemoryTier, AnyOneNodeIsLost) {
  for (const Machines machines : {Machines::kOne, Machines::kOneEach}) {
    for (const char lost : {'a', 'b', 'c', 'd'}) {
      Cluster cluster = kFour;
      cluster.machines = machines;
      save(cluster, 5, 30);
      lose_node(lost);
      Cluster replaced = cluster;
      replaced.names[static_cast<size_t>(lost - 'a')] = 'z';
      EXPECT_EQ(load(replaced), 5) << lost;
      EXPECT_FALSE(files_of('z', {1, 5}).empty()) << "what the new node needs lies there now";
      lose_node('z');
      Cluster fewer{Mesh(3, {}), 1, machines, "abcd"};
      fewer.names.erase(fewer.names.find(lost), 1);
      EXPECT_EQ(load(fewer), 5) << lost;
    }
  }
}

// Stages and replicas on eight ranks: the partner differs in both. Two replicas stand two nodes that are
// lost.
TEST_F(MemoryTier, TwoNodesAreLostWhereEachHasTwoReplicas) {
  const Cluster cluster{Mesh(8, {.pp = 2}), 2, Machines::kOneEach};
  save(cluster, 7, 40, 1, /*replicas=*/2);
  lose_node('a');
  lose_node('c');
  Cluster replaced = cluster;
  replaced.names = "xbyd";
  EXPECT_EQ(load(replaced), 7);
}

// One replica stands one: of two nodes that hold each other's, nothing can be put together, and nothing is
// loaded.
TEST_F(MemoryTier, MoreAreLostThanThereAreReplicas) {
  save(kFour, 5, 30);
  for (const char lost : {'a', 'b', 'c'}) lose_node(lost);
  Cluster replaced = kFour;
  replaced.names = "xyzd";
  EXPECT_EQ(load(replaced), -1);
}

TEST_F(MemoryTier, ADamagedOrTornFileIsTakenFromItsReplica) {
  for (const bool torn : {false, true}) {
    save(kFourMachines, 5, 30);
    for (const fs::path& file : files_of('a', {1, 5}, "model-00001"))
      torn ? fs::resize_file(file, fs::file_size(file) / 2) : damage(file);
    EXPECT_EQ(load(kFourMachines), 5);
    // It has been mended.
    lose_node('c');
    Cluster replaced = kFourMachines;
    replaced.names = "abzd";
    EXPECT_EQ(load(replaced), 5);
    lose_node('z');
  }
}

// A bit of a file turns on its way to the node that needs it: the step is not taken from there, whatever else
// is whole.
TEST_F(MemoryTier, AFileThatIsDamagedOnItsWayIsNotTaken) {
  for (const Machines machines : {Machines::kOne, Machines::kOneEach}) {
    Cluster cluster = kFour;
    cluster.machines = machines;
    save(cluster, 5, 30);
    lose_node('d');
    Cluster replaced = cluster;
    replaced.names = "abcz";
    faulty_rank = 3;
    // Of the fresh node's writes the first is the manifest; the files that it needs follow.
    for (const int64_t write : {1, 2}) {
      faulty.flip_bit_of_write(write, 1000, 3);
      EXPECT_EQ(load(replaced), -1) << "write " << write;
      faulty.clear();
      lose_node('z');
    }
    EXPECT_EQ(load(replaced), 5) << "when all goes well";
    faulty_rank = -1;
    for (const char node : {'a', 'b', 'c', 'z'}) lose_node(node);
  }
}

// Damage on all copies of one file: the step before is taken where it still stands, else nothing.
TEST_F(MemoryTier, AStepThatCannotBePutTogetherIsPassedOver) {
  save(kFour, 5, 30);
  fs::copy(folder.path(), folder.path().string() + "-aside", fs::copy_options::recursive);
  save(kFour, 6, 40);
  fs::copy(folder.path().string() + "-aside", folder.path(),
           fs::copy_options::recursive | fs::copy_options::skip_existing);
  fs::remove_all(folder.path().string() + "-aside");
  EXPECT_EQ(load(kFour), 6);
  for (const char node : {'a', 'b', 'c', 'd'}) {
    for (const fs::path& file : files_of(node, {1, 6}, "optimizer-00002")) damage(file);
  }
  EXPECT_EQ(load(kFour), 5);
  for (const char node : {'a', 'b', 'c', 'd'})
    fs::remove(storage::NodeTier(disk, folder / std::string(1, node), kRun).folder_of({1, 5}) /
               storage::kManifestName);
  EXPECT_EQ(load(kFour), -1);
}

// Ranks died between writing and the manifest: the step before stands. One node had its manifest: all had
// written, and the newer one counts.
TEST_F(MemoryTier, AStepCountsWhenAllHadWrittenIt) {
  const auto manifest = [&](char node) {
    return storage::NodeTier(disk, folder / std::string(1, node), kRun).folder_of({1, 5}) /
           storage::kManifestName;
  };
  save(kFour, 5, 30);
  for (const char node : {'a', 'b', 'c'}) fs::remove(manifest(node));
  EXPECT_EQ(load(kFour), 5);
  for (const char node : {'a', 'b', 'c'}) fs::remove(manifest(node));
  damage(manifest('d'));
  EXPECT_EQ(load(kFour), -1);
}

// What a later start saved is newer than a higher step of an earlier one, which may write no more.
TEST_F(MemoryTier, ALaterStartCountsAndFencesTheEarlierOne) {
  save(kFour, 9, 30);
  save(kFour, 4, 40, /*generation=*/2);
  EXPECT_EQ(load(kFour), 4);
  for (const auto& result : save(kFour, 10, 50)) {
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.failure->code(), ExitCode::kFenced);
  }
  EXPECT_EQ(load(kFour), 4);
}

// Whatever operation fails on one rank: all are told the same, nobody waits, and the step before or the new
// one is there, whole.
TEST_F(MemoryTier, WhereOneFailsTheStepBeforeStays) {
  for (const Machines machines : {Machines::kOne, Machines::kOneEach}) {
    const Cluster cluster{Mesh(2, {.tp = 2}), 1, machines};
    for (const int64_t rank : {0, 1}) {
      int64_t step = 1, good = 1;
      lose_node('a'), lose_node('b');
      save(cluster, 1, 1);
      faulty_rank = rank;
      for (int64_t operation = 0;; ++operation) {
        faulty.fail_at(operation, storage::FaultFileSystem::Fault::kIo);
        ++step;
        const auto results = save(cluster, step, static_cast<uint64_t>(step));
        const bool reached = faulty.operations() > operation;
        faulty.clear();
        EXPECT_EQ(results[0].failure.has_value(), results[1].failure.has_value())
            << "operation " << operation << " of rank " << rank;
        // The last thing that can fail is one of the manifests; where another was put, the step counts.
        const int64_t found = load(cluster);
        EXPECT_TRUE(found == step || (found == good && results[0].failure))
            << "operation " << operation << " of rank " << rank << ": " << found;
        good = found;
        if (!reached) break;
      }
      EXPECT_GE(step, 6) << "of rank " << rank;
      faulty_rank = -1;
    }
  }
}

TEST_F(MemoryTier, ATierOfSomeRanksOnlyIsRefused) {
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const Writers ranks(group_of_writers(world));
    const auto own = world.rank() == 0 ? std::optional(place(kFour, 0)) : std::nullopt;
    try {
      const TierNodes nodes(ranks, own);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("1 of 2 ranks"));
    }
  });
}

// A file that is larger than one message, beside smaller ones in both directions.
TEST_F(MemoryTier, FilesOfManyMessagesComeWhole) {
  comm::run_ranks(3, [&](comm::Communicator& world) {
    const Writers ranks(group_of_writers(world));
    const Cluster cluster{Mesh(3, {}), 1, Machines::kOneEach};
    const TierNodes nodes(ranks, place(cluster, world.rank()));
    const auto folder_of = [&](int64_t node) { return nodes.tier_of(node); };
    const int64_t sizes[] = {(int64_t{9} << 20) + 13, 1, int64_t{4} << 20};
    const auto letter = static_cast<char>('A' + world.rank());
    fs::create_directories(folder_of(world.rank()));
    std::ofstream(folder_of(world.rank()) / fmt::format("file-{}", world.rank()))
        << std::string(static_cast<size_t>(sizes[world.rank()]), letter);
    std::vector<FileMove> moves;
    for (int64_t from = 0; from < 3; ++from) {
      for (int64_t to = 0; to < 3; ++to) {
        if (from != to) moves.push_back({fmt::format("file-{}", from), sizes[from], from, to});
      }
    }
    ranks.each("move", [&]() -> nlohmann::json {
      move_files(disk, ranks, nodes, folder_of, moves);
      return nullptr;
    });
    for (int64_t from = 0; from < 3; ++from) {
      const std::string text = read_text(folder_of(world.rank()) / fmt::format("file-{}", from));
      EXPECT_EQ(static_cast<int64_t>(text.size()), sizes[from]);
      EXPECT_EQ(text.find_first_not_of(static_cast<char>('A' + from)), std::string::npos);
    }
  });
}

// Nobody sends more a second than he may, over a network or from folder to folder; whoever may send all he
// can is not held up by his own pace.
TEST_F(MemoryTier, FilesComeAtTheirPace) {
  for (const Machines machines : {Machines::kOneEach, Machines::kOne}) {
    lose_node('a'), lose_node('b');
    constexpr int64_t bytes = int64_t{5} << 20;
    // the other rank may look at its watch only once the first bytes have gone
    std::array<double, 2> seconds{};
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const Writers ranks(group_of_writers(world));
      const Cluster cluster{Mesh(2, {}), 1, machines};
      const TierNodes nodes(ranks, place(cluster, world.rank()));
      const auto folder_of = [&](int64_t node) { return nodes.tier_of(node); };
      ranks.each("make", [&]() -> nlohmann::json {
        fs::create_directories(folder_of(world.rank()));
        if (world.rank() == 0)
          std::ofstream(folder_of(0) / "file-0") << std::string(static_cast<size_t>(bytes), 'x');
        return nullptr;
      });
      const std::vector<FileMove> moves = {{"file-0", bytes, 0, 1}};
      const Stopwatch watch;
      ranks.each("move", [&]() -> nlohmann::json {
        move_files(disk, ranks, nodes, folder_of, moves, 20e6);
        return nullptr;
      });
      seconds.at(static_cast<size_t>(world.rank())) = watch.seconds();
      EXPECT_EQ(read_text(folder_of(1) / "file-0").size(), static_cast<size_t>(bytes));
    });
    EXPECT_GE(std::ranges::max(seconds), static_cast<double>(bytes) / 20e6);
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
