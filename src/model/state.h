// What decoding keeps of the tokens it has seen, of many sequences at once. A mixer's state are named
// tensors [sequences, …], as its entry in recipe/mixers/ lists them: an fp32 recurrence state, which does
// not grow, or keys and values, in pages that sequences with the same beginning share
// (kernels/attention/paged/page_pool.h).
//
// A sequence is a row of all these tensors. Rows of dropped sequences are used again; the others stay where
// they are, so that a sequence is known by its row for as long as it lives. A pass of the decoder takes any
// of them: document i of its layout continues rows[i]. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/paged/paged.h"
#include "recipe/mixers.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {
struct RecurrenceStates;   // linear_recurrence/op.h
struct ConvolutionStates;  // short_convolution/op.h
struct ScanStates;         // scan/op.h
struct ToeplitzStates;     // toeplitz/op.h
}  // namespace longhaul::kernels

namespace longhaul::model {

// Of one layer.
class MixerState {
 public:
  // tensor_ranks: over how many the heads are dealt out; this is one rank's share.
  MixerState(std::span<const recipe::MixerStateTensor> tensors, const Precision& precision, at::Device device,
             int64_t tensor_ranks);

  const Tensor& tensor(std::string_view name) const;  // [rows, …] of those that do not grow
  kernels::KeyValueCache& keys_values();
  // null: it keeps nothing of tokens
  const kernels::KeyValueCache* pages() const { return keys_values_ ? &*keys_values_ : nullptr; }

  void keep_keys_values_in_int8();  // before there are any
  void grow(int64_t rows);          // what was there stays
  void clear(int64_t row);
  void copy(int64_t from, int64_t to);
  int64_t row_bytes() const;  // of one sequence, without pages

  // Of one row, as copies.
  struct Saved {
    std::map<std::string, Tensor, std::less<>> tensors;
    kernels::KeyValueCache::Saved keys_values;
  };
  Saved save(int64_t row) const;
  void restore(int64_t row, const Saved& saved);

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::optional<kernels::KeyValueCache> keys_values_;
};

// What one pass continues of a layer's state.
struct MixerRows {
  MixerState& state;
  std::span<const int64_t> rows;
};

// Its recurrence, for the operator that continues it; of null nothing.
kernels::RecurrenceStates recurrence_of(const MixerRows* state);
// Its short convolution's of that name; likewise.
kernels::ConvolutionStates convolution_of(const MixerRows* state, std::string_view name);

// The sums of a scan, and, of a cumulative softmax, what says where they are.
kernels::ScanStates scan_of(const MixerRows* state, std::string_view name, std::string_view begun = {});

// The sums of a Toeplitz encoding; likewise.
kernels::ToeplitzStates toeplitz_of(const MixerRows* state);

class DecoderState {
 public:
  // Of each layer, and behind them of what the embedding keeps, if anything. Decoder::make_state.
  explicit DecoderState(std::vector<MixerState> layers) : layers_(std::move(layers)) {}

  // From now on keys and values are kept in eight bits (kernels/attention/paged/page_pool.h); before there
  // are any. kUsage where there are none, for latents, which are keys and values at once, and on a GPU.
  void keep_keys_values_in_int8();

  int64_t add();              // an empty sequence → its row
  int64_t fork(int64_t row);  // another one with the same tokens, whose pages are shared → its row
  void drop(int64_t row);
  int64_t tokens(int64_t row) const;  // seen so far: the position of the next one
  int64_t sequences() const { return static_cast<int64_t>(tokens_.size() - free_.size()); }

  // A sequence as copies of what it holds, with which another row can go on as if it were the same.
  struct Saved {
    int64_t tokens = 0;
    std::vector<MixerState::Saved> layers;
  };
  Saved save(int64_t row) const;
  int64_t restore(const Saved& saved);  // → its row

  // Makes room for so many rows at once, so that add() and fork() need no other memory than pages until they
  // are used up.
  void reserve(int64_t rows);
  // Bytes of the pages that a pass with so many more tokens of the row takes.
  int64_t page_bytes_to_append(int64_t row, int64_t tokens) const;
  int64_t page_bytes_in_use() const;
  void release_free_pages();  // gives their memory back

  std::vector<MixerState>& layers() { return layers_; }
  const std::vector<MixerState>& layers() const { return layers_; }
  void advance(int64_t row, int64_t tokens);  // by a pass of the decoder
  int64_t row_bytes() const;                  // of one sequence, without pages
  int64_t page_bytes() const;                 // of one page in every layer that has such
  int64_t bytes() const;                      // of all that is allocated: rows and pages, free ones too

 private:
  std::vector<MixerState> layers_;
  std::vector<int64_t> tokens_;  // by row; −1: no sequence
  std::vector<int64_t> free_;    // rows
};

// Of a pass: document i of its layout continues sequence rows[i]; they are all different.
struct DecoderRows {
  DecoderState& state;
  std::vector<int64_t> rows;
};

}  // namespace longhaul::model
