#include "storage/gguf.h"

#include <bit>
#include <cstring>

namespace longhaul::storage {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kVersion = 3;
constexpr int64_t kAlignment = 32;
constexpr size_t kBufferedBytes = 4 << 20;
// Numbers of the types of values.
constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

class Bytes {
 public:
  template <class Number>
  void number(Number value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  void text(const std::string& text) {
    number(static_cast<uint64_t>(text.size()));
    raw(text);
  }
  void raw(const std::string& text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), first, first + text.size());
  }
  template <class Item, class Put>
  void array(uint32_t type, const std::vector<Item>& items, Put put) {
    number(kArray);
    number(type);
    number(static_cast<uint64_t>(items.size()));
    for (const Item& item : items) put(item);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  void operator()(uint32_t value) {
    number(kUint32);
    number(value);
  }
  void operator()(float value) {
    number(kFloat32);
    number(value);
  }
  void operator()(bool value) {
    number(kBool);
    number(static_cast<uint8_t>(value ? 1 : 0));
  }
  void operator()(const std::string& value) {
    number(kString);
    text(value);
  }
  void operator()(const std::vector<std::string>& value) {
    array(kString, value, [this](const std::string& item) { text(item); });
  }
  void operator()(const std::vector<int32_t>& value) {
    array(kInt32, value, [this](int32_t item) { number(item); });
  }
  void operator()(const std::vector<float>& value) {
    array(kFloat32, value, [this](float item) { number(item); });
  }

 private:
  std::vector<std::byte> bytes_;
};

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

int64_t gguf_bytes(GgufType type, int64_t elements) {
  if (type == GgufType::kF32) return elements * 4;
  if (type == GgufType::kF16) return elements * 2;
  LONGHAUL_ASSERT(elements % kQ8Block == 0, "{} elements", elements);
  return elements / kQ8Block * kQ8BlockBytes;
}

int64_t GgufTensor::bytes() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return gguf_bytes(type, elements);
}

GgufWriter::GgufWriter(FileSystem& files, const std::filesystem::path& path, const GgufFields& fields,
                       std::vector<GgufTensor> tensors)
    : tensors_(std::move(tensors)) {
  Bytes head;
  head.raw("GGUF");
  head.number(kVersion);
  head.number(static_cast<uint64_t>(tensors_.size()));
  head.number(static_cast<uint64_t>(fields.size()));
  for (const auto& [name, value] : fields) {
    head.text(name);
    std::visit(head, value);
  }
  int64_t offset = 0;
  for (const GgufTensor& tensor : tensors_) {
    LONGHAUL_ASSERT(tensor.name.size() < 64 && !tensor.shape.empty() && tensor.shape.size() <= 4, "tensor {}",
                    tensor.name);
    head.text(tensor.name);
    head.number(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d-- > 0;) head.number(static_cast<uint64_t>(tensor.shape[d]));
    head.number(static_cast<uint32_t>(tensor.type));
    head.number(static_cast<uint64_t>(offset));
    offset += aligned(tensor.bytes());
  }
  file_ = files.create(path);
  put(head.bytes());
  pad();
}

GgufWriter::~GgufWriter() = default;

void GgufWriter::put(std::span<const std::byte> data) {
  position_ += static_cast<int64_t>(data.size());
  buffer_.insert(buffer_.end(), data.begin(), data.end());
  if (buffer_.size() < kBufferedBytes) return;
  file_->write(buffer_);
  buffer_.clear();
}

void GgufWriter::pad() {
  const std::vector<std::byte> zeros(static_cast<size_t>(aligned(position_) - position_));
  put(zeros);
}

void GgufWriter::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    LONGHAUL_ASSERT(current_ < tensors_.size(), "more data than declared tensors");
    const int64_t bytes = tensors_[current_].bytes();
    const auto piece = data.first(std::min(data.size(), static_cast<size_t>(bytes - written_)));
    put(piece);
    written_ += static_cast<int64_t>(piece.size());
    data = data.subspan(piece.size());
    if (written_ < bytes) continue;
    pad();
    ++current_;
    written_ = 0;
  }
}

int64_t GgufWriter::finish() {
  LONGHAUL_ASSERT(current_ == tensors_.size(), "data of tensor '{}' is missing", tensors_[current_].name);
  if (!buffer_.empty()) file_->write(buffer_);
  buffer_.clear();
  file_->sync();
  file_->close();
  return position_;
}

}  // namespace longhaul::storage
