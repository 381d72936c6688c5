#include "data/order/batch_share.h"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/memory/shared_memory.h"

namespace longhaul::data {
namespace {

class ThreadShare final : public BatchShare {
 public:
  explicit ThreadShare(int64_t readers) : readers_(readers) {}

  Batch get(int64_t first, int64_t rows, const std::function<Batch()>& make) override {
    std::shared_future<Batch> batch;
    std::optional<std::promise<Batch>> mine;
    {
      const std::lock_guard lock(mutex_);
      auto [found, fresh] = batches_.try_emplace({first, rows});
      if (fresh) {
        found->second = {mine.emplace().get_future().share(), readers_};
      }
      batch = found->second.batch;
      if (--found->second.readers == 0) batches_.erase(found);
    }
    if (mine) {
      try {
        mine->set_value(make());
      } catch (...) {
        mine->set_exception(std::current_exception());
      }
    }
    return batch.get();
  }

 private:
  struct Made {
    std::shared_future<Batch> batch;
    int64_t readers = 0;  // that have not asked yet
  };
  int64_t readers_;
  std::mutex mutex_;
  std::map<std::pair<int64_t, int64_t>, Made> batches_;
};

class ProcessShare final : public BatchShare {
 public:
  ProcessShare(const std::filesystem::path& folder, int64_t readers, double patience)
      : made_(folder, readers, patience) {}
  Batch get(int64_t first, int64_t rows, const std::function<Batch()>& make) override {
    return batch_from_bytes(made_.get(fmt::format("{}-{}", first, rows), [&] { return to_bytes(make()); }));
  }

 private:
  MadeOnce made_;
};

class BytesWriter {
 public:
  void number(int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  template <class Number>
  void numbers(const std::vector<Number>& values) {
    number(static_cast<int64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class BytesReader {
 public:
  explicit BytesReader(std::string_view bytes) : rest_(bytes) {}
  int64_t number() {
    int64_t value = 0;
    copy(&value, sizeof(value));
    return value;
  }
  template <class Number>
  std::vector<Number> numbers() {
    const int64_t count = number();
    if (count < 0 || static_cast<size_t>(count) > rest_.size() / sizeof(Number)) refuse();
    std::vector<Number> values(static_cast<size_t>(count));
    copy(values.data(), values.size() * sizeof(Number));
    return values;
  }
  void end() const {
    if (!rest_.empty()) refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    throw Error({.code = ExitCode::kData,
                 .what = "a shared batch is damaged",
                 .expected = "all of its bytes, and no others"});
  }
  void copy(void* into, size_t count) {
    if (count > rest_.size()) refuse();
    if (count > 0) std::memcpy(into, rest_.data(), count);
    rest_.remove_prefix(count);
  }
  std::string_view rest_;
};

}  // namespace

std::shared_ptr<BatchShare> share_between_threads(int64_t readers) {
  return std::make_shared<ThreadShare>(readers);
}

std::shared_ptr<BatchShare> share_in_folder(const std::filesystem::path& folder, int64_t readers,
                                            double patience_seconds) {
  return std::make_shared<ProcessShare>(folder, readers, patience_seconds);
}

std::string to_bytes(const Batch& batch) {
  BytesWriter out;
  for (const int64_t number : {batch.first_position, batch.rows, batch.sequence, batch.target_tokens,
                               batch.target_bytes, batch.layout.position_axes}) {
    out.number(number);
  }
  for (const auto* list : {&batch.inputs, &batch.labels, &batch.layout.document_offsets,
                           &batch.layout.positions, &batch.layout.row_offsets})
    out.numbers(*list);
  out.numbers(batch.weights);
  return out.take();
}

Batch batch_from_bytes(std::string_view bytes) {
  BytesReader in(bytes);
  Batch batch;
  for (int64_t* number : {&batch.first_position, &batch.rows, &batch.sequence, &batch.target_tokens,
                          &batch.target_bytes, &batch.layout.position_axes}) {
    *number = in.number();
  }
  for (auto* list : {&batch.inputs, &batch.labels, &batch.layout.document_offsets, &batch.layout.positions,
                     &batch.layout.row_offsets})
    *list = in.numbers<int64_t>();
  batch.weights = in.numbers<float>();
  in.end();
  return batch;
}

}  // namespace longhaul::data
