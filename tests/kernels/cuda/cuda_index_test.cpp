// The index arithmetic of the CUDA kernels, walked completely: fragment layouts against the tables of the PTX
// ISA, the permutation of shared tiles, chunk and tile tables against the definition of documents and masks,
// shared memory against what GPUs have.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernels/adamw/cuda.h"
#include "kernels/attention/tiles.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/rows.h"
#include "kernels/linear_recurrence/cuda/segment_cost.h"
#include "kernels/matmul/tiles.h"

namespace longhaul::kernels::cuda::cuda_index_test {
namespace {

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": element i of a lane, groupID = lane
// >> 2, threadID_in_group = lane % 4, written as the manual has it.
TEST(CudaFragments, AreThoseOfThePtxManual) {
  std::set<std::pair<int, int>> a_seen, b_seen, c_seen;
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8,
                col = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
      const Place place = a_place(lane, i / 2, i % 2);
      EXPECT_EQ(place.row, row);
      EXPECT_EQ(place.col, col);
      a_seen.insert({place.row, place.col});
    }
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
      const Place b = b_place(lane, i / 2, i % 2);
      EXPECT_EQ(b.row, row);
      EXPECT_EQ(b.col, group);
      b_seen.insert({b.row, b.col});
      const Place c = c_place(lane, i);
      EXPECT_EQ(c.row, i < 2 ? group : group + 8);
      EXPECT_EQ(c.col, in_group * 2 + (i & 1));
      c_seen.insert({c.row, c.col});
    }
  }
  EXPECT_EQ(a_seen.size(), 16u * 16u);
  EXPECT_EQ(b_seen.size(), 16u * 8u);
  EXPECT_EQ(c_seen.size(), 16u * 8u);
}

// ldmatrix.x4 (PTX ISA, "ldmatrix"): lanes 8 m … 8 m + 7 give the rows of matrix m; lane l receives of each
// matrix row l / 4, columns 2 (l % 4) and the next; with .trans of its transpose.
Place loaded(Place (*address)(int), int matrix, int lane, int half, bool transposed) {
  const int row = transposed ? 2 * (lane % 4) + half : lane / 4,
            col = transposed ? lane / 4 : 2 * (lane % 4) + half;
  const Place from = address(matrix * 8 + row);
  return {from.row, from.col + col};
}

TEST(CudaFragments, ArriveFromSharedMemoryAsTheProductWantsThem) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int half = 0; half < 2; ++half) {
      for (int reg = 0; reg < 4; ++reg) {
        const Place a = a_place(lane, reg, half), plain = loaded(a_address, reg, lane, half, false),
                    moved = loaded(a_address_transposed, reg, lane, half, true);
        EXPECT_EQ(std::pair(plain.row, plain.col), std::pair(a.row, a.col));
        EXPECT_EQ(std::pair(moved.col, moved.row), std::pair(a.row, a.col));  // stored [k][m]
        // Registers 0, 1 are the fragment of columns 0 … 7, registers 2, 3 that of 8 … 15.
        const Place b = b_place(lane, reg % 2, half), of_rows = loaded(b_address, reg, lane, half, false),
                    of_columns = loaded(b_address_transposed, reg, lane, half, true);
        // stored [n][k]
        EXPECT_EQ(std::pair(of_rows.col, of_rows.row), std::pair(b.row, b.col + reg / 2 * 8));
        EXPECT_EQ(std::pair(of_columns.row, of_columns.col), std::pair(b.row, b.col + reg / 2 * 8));
      }
    }
  }
}

TEST(CudaFragments, AccumulatorsOfTwoTilesAreAnOperand) {
  // as_a packs (left 0, 1), (left 2, 3), (right 0, 1), (right 2, 3): each register must hold the values that
  // a_place names.
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      for (int half = 0; half < 2; ++half) {
        const Place a = a_place(lane, reg, half), c = c_place(lane, 2 * (reg & 1) + half);
        EXPECT_EQ(a.row, c.row);
        EXPECT_EQ(a.col, c.col + 8 * (reg >> 1));
      }
    }
  }
}

class CudaTile : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Widths, CudaTile, ::testing::Values(32, 64, 128, 256));

TEST_P(CudaTile, PermutesWholeUnitsWithinRows) {
  const int width = GetParam();
  std::set<int> seen;
  for (int row = 0; row < 128; ++row) {
    for (int col = 0; col < width; ++col) {
      const int offset = tile_offset(row, col, width);
      EXPECT_EQ(offset / width, row);
      EXPECT_EQ(offset % kUnit, col % kUnit);
      seen.insert(offset);
    }
  }
  EXPECT_EQ(seen.size(), 128u * static_cast<unsigned>(width));
  EXPECT_EQ(*seen.rbegin(), 128 * width - 1);
}

// Shared memory has 32 banks of 4 bytes: eight rows of 16 bytes are read at once if their units lie in eight
// different groups of 4 banks.
TEST_P(CudaTile, EightRowsOfOneLoadLieInDifferentBanks) {
  const int width = GetParam();
  for (Place (*address)(int) : {&a_address, &a_address_transposed, &b_address, &b_address_transposed}) {
    for (int row0 = 0; row0 < 64; row0 += 8) {
      for (int col0 = 0; col0 + 16 <= width; col0 += 8) {
        for (int matrix = 0; matrix < 4; ++matrix) {
          std::set<int> groups;
          for (int i = 0; i < 8; ++i) {
            const Place place = address(matrix * 8 + i);
            groups.insert(tile_offset(row0 + place.row, col0 + place.col, width) * 2 / 16 % 8);
          }
          EXPECT_EQ(groups.size(), 8u) << "row " << row0 << " column " << col0;
        }
      }
    }
  }
}

std::vector<std::vector<int64_t>> document_lists() {
  std::vector<std::vector<int64_t>> lists = {{0},
                                             {0, 0, 0},
                                             {1},
                                             {63},
                                             {64},
                                             {65},
                                             {1, 0, 63, 64, 65, 0, 7},
                                             {500, 913, 1213},
                                             {127, 129, 0, 1000, 1, 1},
                                             {4096}};
  for (auto& list : lists) {
    int64_t sum = 0;
    for (int64_t& length : list) length = sum += length;
    list.insert(list.begin(), 0);
  }
  return lists;
}

TEST(CudaRecurrencePlan, CoversEveryTokenOnceInOrderAndNeverCrossesADocument) {
  for (const auto& offsets : document_lists()) {
    for (const int64_t segment_tokens : {1, 64, 100, 128, 1 << 30}) {
      const RecurrencePlan plan = plan_recurrence(offsets, segment_tokens);
      ASSERT_EQ(plan.along.size(), plan.against.size());
      ASSERT_EQ(plan.document_segments.size(), offsets.size());
      for (const bool against : {false, true}) {
        const auto& table = against ? plan.against : plan.along;
        for (size_t n = 0; n + 1 < offsets.size(); ++n) {
          int64_t next = against ? offsets[n + 1] - 1 : offsets[n];
          const int32_t begin = plan.document_segments[n], end = plan.document_segments[n + 1];
          ASSERT_LT(begin, end);  // an empty document has a segment too: its final state must be written
          for (int32_t s = begin; s < end; ++s) {
            const Segment& segment = table[static_cast<size_t>(s)];
            EXPECT_EQ(segment.document, static_cast<int32_t>(n));
            EXPECT_EQ(segment.index, s - begin);
            EXPECT_EQ(segment.last, s + 1 == end);
            int rows = 0;
            for (int chunk = 0; chunk < chunks_of(segment); ++chunk) {
              EXPECT_GE(rows_of(segment, chunk), 1);
              EXPECT_LE(rows_of(segment, chunk), kChunk);
              for (int row = 0; row < rows_of(segment, chunk); ++row, ++rows) {
                EXPECT_EQ(token_at(segment, chunk * kChunk + row, against), next);
                next += against ? -1 : 1;
              }
            }
            EXPECT_EQ(rows, segment.length);
          }
          EXPECT_EQ(next, against ? offsets[n] - 1 : offsets[n + 1]);
        }
        EXPECT_EQ(plan.document_segments.back(), static_cast<int32_t>(table.size()));
      }
    }
  }
}

TEST(CudaRecurrencePlan, ChunksAreThoseOfTheSegmentsOneAfterAnother) {
  for (const auto& offsets : document_lists()) {
    const RecurrencePlan plan = plan_recurrence(offsets, 128);
    for (const bool against : {false, true}) {
      const auto& segments = against ? plan.against : plan.along;
      const ChunkTable table = chunks_of(segments, against);
      ASSERT_EQ(table.segment_chunks.size(), segments.size() + 1);
      EXPECT_EQ(table.segment_chunks.back(), static_cast<int32_t>(table.chunks.size()));
      int64_t tokens = 0;
      for (size_t s = 0; s < segments.size(); ++s) {
        ASSERT_EQ(table.segment_chunks[s + 1] - table.segment_chunks[s], chunks_of(segments[s]));
        for (int c = 0; c < chunks_of(segments[s]); ++c) {
          const Chunk& chunk = table.chunks[static_cast<size_t>(table.segment_chunks[s] + c)];
          EXPECT_EQ(chunk.first, token_at(segments[s], c * kChunk, against));
          EXPECT_EQ(chunk.rows, rows_of(segments[s], c));
          tokens += chunk.rows;
        }
      }
      EXPECT_EQ(tokens, offsets.back());
    }
  }
}

// Halving: every pair of different tokens of a chunk meets at one level, the later one in the right half;
// tiles meet where their tokens do.
TEST(CudaRecurrencePlan, LevelsOfHalvingShareOutThePairs) {
  for (int i = 0; i < kChunk; ++i) {
    for (int j = 0; j < kChunk; ++j) {
      int levels = 0;
      for (int level = 0; level < kLevels; ++level) {
        if (!tokens_meet(i, j, level)) continue;
        ++levels;
        EXPECT_TRUE(tiles_meet(i / 16, j / 16, level));
        EXPECT_EQ(i / (2 << level), j / (2 << level));
        EXPECT_EQ((i >> level & 1) != 0, i > j);
      }
      EXPECT_EQ(levels, i == j ? 0 : 1) << i << " " << j;
    }
  }
  for (int level = 4; level < kLevels; ++level) {  // of such tiles all tokens meet
    for (int i = 0; i < kChunk; ++i) {
      for (int j = 0; j < kChunk; ++j) EXPECT_EQ(tokens_meet(i, j, level), tiles_meet(i / 16, j / 16, level));
    }
  }
}

TEST(CudaRecurrencePlan, BlocksCoverSegmentsHeadsAndSlicesOnce) {
  for (const int heads : {1, 3, 64}) {
    for (const int slices : {1, 2, 8}) {
      std::set<std::tuple<int, int, int>> seen;
      const int segments = 5;
      for (int64_t block = 0; block < segments * heads * slices; ++block) {
        const ChunkedBlock where = chunked_block(block, heads, slices);
        EXPECT_TRUE(where.part >= 0 && where.part < segments && where.head >= 0 && where.head < heads &&
                    where.slice >= 0 && where.slice < slices);
        seen.insert({where.part, where.head, where.slice});
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(segments * heads * slices));
    }
  }
}

TEST(CudaRecurrencePlan, EachHalfOfEightWarpsComputesAllRowsAndQuartersShareTheScores) {
  for (const int half : {0, 4}) {
    std::set<int> tiles;
    for (int warp = half; warp < half + 4; ++warp) tiles.insert(row_tile(warp));
    EXPECT_EQ(tiles, (std::set<int>{0, 1, 2, 3}));
  }
  for (int warp = 0; warp < 4; ++warp) EXPECT_EQ(row_tile(warp) + row_tile(warp + 4), 3);
}

TEST(CudaRecurrencePlan, SplitsWhereWholeDocumentsLeaveMultiprocessorsIdle) {
  using Offsets = std::vector<int64_t>;
  const auto segment = [](const Offsets& offsets, int64_t heads, int64_t width, bool backward) {
    return choose_segment_tokens(offsets, chunked_walks(heads, width, width, backward), 132);
  };
  // two blocks of four warps for nearly each multiprocessor
  EXPECT_EQ(segment({0, 16384}, 64, 128, false), 8192);
  EXPECT_EQ(segment({0, 16384}, 64, 128, true), 8192);  // the joined sweep of 64 heads: 128 blocks
  EXPECT_EQ(segment({0, 32768, 65536, 98304, 131072}, 32, 128, false), kUnsplit);
  EXPECT_EQ(segment({0, 32768, 65536, 98304, 131072}, 32, 128, true), kUnsplit);
  EXPECT_LE(segment({0, 32768}, 8, 64, false), 2048);
  // short documents beside a long one
  EXPECT_LE(segment({0, 16384, 16385, 16386, 16390}, 8, 64, false), 2048);
  EXPECT_EQ(segment({0, 600}, 1, 64, false), kUnsplit);
  for (const bool backward : {false, true}) {
    for (const Offsets& offsets :
         {Offsets{0}, Offsets{0, 0}, Offsets{0, 1}, Offsets{0, 1000}, Offsets{0, 1 << 20}}) {
      EXPECT_GE(segment(offsets, 1, 200, backward), kShortestSegment);
      EXPECT_GE(choose_segment_tokens(offsets, two_pass_walks(1, 200, 3), 132), kShortestSegment);
    }
  }
  EXPECT_LE(choose_segment_tokens(Offsets{0, 16384}, two_pass_walks(8, 64, 64), 132), 1024);
}

TEST(CudaSharedMemory, PartsDoNotOverlapAndFit) {
  for (int keys = 1; keys <= 256; ++keys) {
    const int padded = padded_keys(keys), slice = value_slice(padded);
    EXPECT_GE(padded, keys);
    const ChunkedShared shared = chunked_shared(padded, slice);
    EXPECT_EQ(shared.k, kChunk * padded * 2);
    EXPECT_EQ(shared.v, shared.k + kChunk * padded * 2);
    EXPECT_EQ(shared.stage, shared.v + kChunk * slice * 2);
    EXPECT_EQ(shared.state, 2 * shared.stage);
    EXPECT_EQ(shared.decays, shared.state + padded * slice * 2);
    EXPECT_EQ(shared.bytes, shared.decays + 2 * static_cast<int>(sizeof(ChunkDecays)));
    EXPECT_LE(shared.bytes, kLargestSharedBytes);
    for (const int part : {shared.k, shared.v, shared.stage, shared.state, shared.decays})
      EXPECT_EQ(part % 128, 0);
    const ExactShared exact = exact_shared(keys);
    EXPECT_GE(exact_warps(keys) * 32, keys);
    EXPECT_LE(exact_warps(keys) * 32, 256);  // the kernel's launch bound
    EXPECT_EQ(exact.bytes - exact.partial, kExactBatch * exact_warps(keys) * 32 * 4);
    EXPECT_LE(exact.bytes, kLargestSharedBytes);
  }
  for (const int width : {64, kJoinedWidth}) {
    const JoinedShared joined = joined_shared(width);
    EXPECT_EQ(joined.stage, 4 * kChunk * width * 2);
    EXPECT_EQ(joined.state, 2 * joined.stage);
    EXPECT_EQ(joined.decays, joined.state + width * width * 2);
    EXPECT_EQ(joined.bytes, joined.decays + 2 * static_cast<int>(sizeof(ChunkDecays)));
    EXPECT_LE(joined.bytes, kLargestSharedBytes);
  }
  constexpr GradientShared gradient = gradient_shared();
  EXPECT_EQ(gradient.lambda, 3 * kTileBytes);
  EXPECT_EQ(gradient.sums - gradient.lambda, kChunk * kSlice * 4);
  EXPECT_EQ(gradient.dots - gradient.sums, 3 * 4 * kSlice * 4);
  EXPECT_EQ(gradient.stage - gradient.dots, 4 * kSlice * 4);
  EXPECT_EQ(gradient.g - gradient.rows, kTileBytes);
  EXPECT_LE(gradient.g + kChunk * kPadded * 4, gradient.bytes);
  EXPECT_LE(gradient.bytes, kLargestSharedBytes);
  for (const int part : {gradient.k, gradient.p, gradient.lambda, gradient.stage, gradient.rows, gradient.g})
    EXPECT_EQ(part % 128, 0);
  for (const int head : {64, 128, 256}) {
    EXPECT_LE(forward_shared_bytes(head), kLargestSharedBytes);
    EXPECT_LE(backward_shared_bytes(head), kLargestSharedBytes);
  }
  EXPECT_LE(kMatmulSharedBytes, kLargestSharedBytes);
}

// Every (query, key) pair that the definition makes visible, and no other, is inside a tile's range and
// passes its mask.
TEST(CudaAttentionTiles, SeeExactlyWhatTheDefinitionSays) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> layouts = {
      {{0, 5, 5, 135, 136}, {0, 5, 5, 135, 136}},
      {{0, 3, 68}, {0, 140, 340}},
      {{0, 140, 145}, {0, 70, 70}},
      {{0, 1}, {0, 300}}};
  for (const auto& [offsets, key_offsets] : layouts) {
    for (const int window : {0, 1, 50, 64, 200}) {
      std::set<std::pair<int64_t, int64_t>> wanted;
      for (size_t n = 0; n + 1 < offsets.size(); ++n) {
        const int64_t queries = offsets[n + 1] - offsets[n], keys = key_offsets[n + 1] - key_offsets[n];
        for (int64_t i = 0; i < queries; ++i) {
          for (int64_t j = 0; j < keys; ++j) {
            const int64_t reach = i + keys - queries;  // the last query sees the last key
            if (j <= reach && (window == 0 || j > reach - window))
              wanted.insert({offsets[n] + i, key_offsets[n] + j});
          }
        }
      }
      for (const int rows : {64, 128}) {
        std::set<std::pair<int64_t, int64_t>> seen;
        std::set<int64_t> tokens;
        for (const AttentionTile& tile : attention_tiles(offsets, key_offsets, rows, false)) {
          const Range range = keys_of_tile(tile, window);
          for (int row = 0; row < tile.rows; ++row) {
            EXPECT_TRUE(tokens.insert(tile.begin + row).second);
            const Range visible = visible_keys(tile.first + row, tile.shift, tile.others, window);
            EXPECT_TRUE(visible.first >= visible.last ||
                        (visible.first >= range.first && visible.last <= range.last));
            for (int key = visible.first; key < visible.last; ++key)
              EXPECT_TRUE(seen.insert({tile.begin + row, tile.other_begin + key}).second);
          }
          for (int key = 0; key < tile.others; key += kKeyRows) {
            bool all = key + kKeyRows <= tile.others;
            for (int row = 0; row < tile.rows && all; ++row) {
              const Range visible = visible_keys(tile.first + row, tile.shift, tile.others, window);
              all = visible.first <= key && visible.last >= key + kKeyRows;
            }
            EXPECT_EQ(all_visible(tile, key, window), all);
          }
        }
        EXPECT_EQ(seen, wanted);
        EXPECT_EQ(tokens.size(), static_cast<size_t>(offsets.back()));
      }
      std::set<std::pair<int64_t, int64_t>> seen;
      for (const AttentionTile& tile : attention_tiles(key_offsets, offsets, kKeyRows, true)) {
        const Range range = queries_of_tile(tile, window);
        for (int row = 0; row < tile.rows; ++row) {
          const Range seeing = seeing_queries(tile.first + row, tile.shift, tile.others, window);
          EXPECT_TRUE(seeing.first >= seeing.last ||
                      (seeing.first >= range.first && seeing.last <= range.last));
          for (int query = seeing.first; query < seeing.last; ++query)
            EXPECT_TRUE(seen.insert({tile.other_begin + query, tile.begin + row}).second);
        }
      }
      EXPECT_EQ(seen, wanted);
    }
  }
}

TEST(CudaMatmulBlocks, CoverEveryElementOfEveryGroupOnce) {
  const std::vector<std::vector<int64_t>> groupings = {
      {0, 0, 0}, {0, 1, 1, 130, 130, 387}, {0, 128, 256}, {0, 5}};
  for (const auto& offsets : groupings) {
    const int groups = static_cast<int>(offsets.size()) - 1;
    const int64_t columns = 200, column_blocks = divide_up(columns, kBlockColumns), rows = offsets.back();
    std::map<std::pair<int64_t, int64_t>, int> seen;  // (row, column block)
    for (int64_t index = 0; index < largest_row_blocks(rows, groups) * column_blocks; ++index) {
      const MatmulBlock block = row_grouped_block(index, column_blocks, offsets.data(), groups);
      if (block.group < 0) continue;
      EXPECT_EQ(block.first, offsets[static_cast<size_t>(block.group)]);
      EXPECT_EQ(block.last, offsets[static_cast<size_t>(block.group) + 1]);
      for (int64_t row = block.row; row < std::min(block.row + kBlockRows, block.last - block.first); ++row)
        ++seen[{block.first + row, block.column}];
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(rows * column_blocks));
    for (const auto& [where, times] : seen) EXPECT_EQ(times, 1);
    std::set<std::tuple<int, int64_t, int64_t>> corners;
    for (int64_t index = 0; index < groups * 3 * column_blocks; ++index) {
      const MatmulBlock block = depth_grouped_block(index, 3, column_blocks, offsets.data());
      EXPECT_EQ(block.first, offsets[static_cast<size_t>(block.group)]);
      EXPECT_TRUE(corners.insert({block.group, block.row, block.column}).second);
      EXPECT_TRUE(block.row < 3 * kBlockRows && block.column < column_blocks * kBlockColumns);
    }
  }
}

TEST(CudaRows, RunsCoverAllRowsAndDependOnTheirNumberOnly) {
  for (const int64_t rows : {0, 1, 511, 512, 513, 1024, 1025, 100000}) {
    EXPECT_LE(row_runs(rows), kRowRuns);
    EXPECT_GE(row_runs(rows) * rows_per_run(rows), rows);
    EXPECT_TRUE(rows == 0 || (row_runs(rows) - 1) * rows_per_run(rows) < rows);  // no run is empty
  }
}

TEST(CudaRows, AGroupOfThreadsHoldsARow) {
  for (const int units : {2, 4}) {
    for (int channels = 1; channels <= 512 * units * kUnit; ++channels) {
      const RowShare share = row_share(channels, units);
      ASSERT_GE(share.group * units * kUnit, channels);
      ASSERT_EQ(share.threads % share.group, 0);
      ASSERT_EQ(share.threads % kWarp, 0);
      ASSERT_LE(share.threads, 512);
      // a part of a warp that a butterfly of shuffles can add up, or whole warps; never twice what is needed
      ASSERT_TRUE(share.group < kWarp ? kWarp % share.group == 0 : share.group % kWarp == 0);
      ASSERT_TRUE(share.group == 1 || (share.group - 1) / 2 * units * kUnit < channels);
    }
  }
}

TEST(CudaTables, PiecesCoverEverythingOnce) {
  std::vector<AdamwTensor> tensors(4);
  const int64_t counts[] = {0, 1, kAdamwPiece, 3 * kAdamwPiece + 1};
  for (size_t i = 0; i < 4; ++i) tensors[i].count = counts[i];
  std::vector<int64_t> covered(4, 0);
  for (const AdamwPiece& piece : adamw_pieces(tensors)) {
    const auto tensor = static_cast<size_t>(piece.tensor);
    EXPECT_EQ(piece.begin, covered[tensor]);
    covered[tensor] = std::min(piece.begin + kAdamwPiece, counts[tensor]);
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(covered[i], counts[i]);
}

}  // namespace
}  // namespace longhaul::kernels::cuda::cuda_index_test
