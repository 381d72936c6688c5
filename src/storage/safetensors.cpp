#include "storage/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/text/text.h"

namespace longhaul::storage {

namespace {

constexpr size_t kBufferBytes = 1 << 20;  // small tensors are gathered into writes of this size

std::string header_text(const std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata, int64_t alignment,
                        const std::string& where) {
  const auto quoted = [&](const std::string& text) {
    try {
      return nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "the name cannot be stored",
                   .expected = "UTF-8",
                   .found = brief(text),
                   .where = where});
    }
  };
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", first ? "" : ",", quoted(key), quoted(value));
      first = false;
    }
    text += "}";
  }
  for (const TensorInfo& tensor : tensors) {
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", quoted(tensor.name), name_of(tensor.dtype),
                        fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
  }
  text += "}";
  while ((8 + static_cast<int64_t>(text.size())) % alignment != 0) text += ' ';
  return text;
}

std::array<std::byte, 8> little_endian(uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
  return bytes;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const FileSystem& files, const std::filesystem::path& path,
                                      const SafetensorsLimits& limits, Links links) {
  return of(files.open(path, ExitCode::kCheckpoint, links), path, limits);
}

SafetensorsFile SafetensorsFile::of(std::unique_ptr<FileReader> reader, const std::filesystem::path& path,
                                    const SafetensorsLimits& limits) {
  SafetensorsFile file;
  file.path_ = path;
  file.reader_ = std::move(reader);
  file.size_ = file.reader_->size();
  // Only as much as the file has and the limits allow is read; parse_safetensors_header refuses the rest.
  std::vector<std::byte> start(static_cast<size_t>(std::min<int64_t>(8, file.size_)));
  file.read_raw(0, start);
  if (start.size() == 8) {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<uint64_t>(start[i]);
    if (length <= static_cast<uint64_t>(limits.header_bytes) &&
        static_cast<int64_t>(length) <= file.size_ - 8) {
      start.resize(8 + length);
      file.read_raw(8, std::span(start).subspan(8));
    }
  }
  file.header_ = parse_safetensors_header(start, file.size_, path.string(), limits);
  for (size_t i = 0; i < file.header_.tensors.size(); ++i)
    file.index_.emplace(file.header_.tensors[i].name, i);
  return file;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the file lacks a tensor",
                 .expected = brief(name, 512),
                 .found = fmt::format("{} other tensors", tensors().size()),
                 .where = path_.string()});
  }
  return *tensor;
}

void SafetensorsFile::read_raw(int64_t offset, std::span<std::byte> into) const {
  const int64_t now = reader_->size();
  if (now != size_) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the file changed its size after it was opened",
                 .expected = fmt::format("{} bytes", size_),
                 .found = fmt::format("{} bytes", now),
                 .where = path_.string()});
  }
  LONGHAUL_ASSERT(offset >= 0 && static_cast<int64_t>(into.size()) <= size_ - offset,
                  "offset {} length {} of {}", offset, into.size(), size_);
  if (!into.empty()) reader_->read_exactly(offset, into);
}

void SafetensorsFile::read(const TensorInfo& tensor, int64_t first_byte, std::span<std::byte> into) const {
  LONGHAUL_ASSERT(first_byte >= 0 && first_byte + static_cast<int64_t>(into.size()) <= tensor.bytes(),
                  "{} bytes at {} of tensor '{}'", into.size(), first_byte, tensor.name);
  read_raw(header_.data_begin + tensor.begin + first_byte, into);
}

std::vector<std::byte> SafetensorsFile::read(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<std::byte> data(static_cast<size_t>(tensor.bytes()));
  read(tensor, 0, data);
  return data;
}

struct SafetensorsWriter::State {
  std::string where;
  std::unique_ptr<FileWriter> file;
  Sha256 sha256;
  std::vector<std::byte> buffer;
  WrittenFile result;
  size_t current = 0;    // tensor being written
  int64_t position = 0;  // bytes of data received
  uint32_t current_crc = 0;

  void put(std::span<const std::byte> data) {
    sha256.update(data);
    result.bytes += static_cast<int64_t>(data.size());
    if (buffer.size() + data.size() > kBufferBytes) flush();
    if (data.size() >= kBufferBytes) {
      file->write(data);
    } else {
      buffer.insert(buffer.end(), data.begin(), data.end());
    }
  }

  void flush() {
    if (!buffer.empty()) file->write(buffer);
    buffer.clear();
  }

  // Closes every tensor whose last byte has arrived; empty tensors close as soon as it is their turn.
  void close_finished(const std::vector<TensorInfo>& tensors) {
    while (current < tensors.size() && tensors[current].end == position) {
      result.crc32c.emplace(tensors[current].name, current_crc);
      current_crc = 0;
      ++current;
    }
  }
};

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::filesystem::path& path,
                                     std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata, int64_t alignment)
    : tensors_(std::move(tensors)), state_(std::make_unique<State>()) {
  LONGHAUL_ASSERT(alignment >= 1 && (alignment & (alignment - 1)) == 0, "alignment {}", alignment);
  state_->where = path.string();
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  int64_t position = 0;
  for (TensorInfo& tensor : tensors_) {
    tensor.begin = position;
    position += tensor_bytes(tensor.dtype, tensor.shape, tensor.name);
    tensor.end = position;
  }
  const std::string text = header_text(tensors_, metadata, alignment, state_->where);
  const auto length = little_endian(text.size());
  std::vector<std::byte> start(length.begin(), length.end());
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  start.insert(start.end(), bytes.begin(), bytes.end());
  // What this reader could not read again is refused before a byte is written: names, limits, duplicates.
  parse_safetensors_header(start, static_cast<int64_t>(start.size()) + position, state_->where);
  state_->file = files.create(path);
  state_->put(start);
  state_->close_finished(tensors_);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::span<const std::byte> data) {
  State& state = *state_;
  while (!data.empty()) {
    LONGHAUL_ASSERT(state.current < tensors_.size(), "more data than declared tensors in {}", state.where);
    const auto room = static_cast<size_t>(tensors_[state.current].end - state.position);
    const auto piece = data.first(std::min(room, data.size()));
    state.current_crc = crc32c(piece, state.current_crc);
    state.put(piece);
    state.position += static_cast<int64_t>(piece.size());
    data = data.subspan(piece.size());
    state.close_finished(tensors_);
  }
}

WrittenFile SafetensorsWriter::finish() {
  State& state = *state_;
  LONGHAUL_ASSERT(state.current == tensors_.size(), "{}: data of tensor '{}' missing", state.where,
                  tensors_[state.current].name);
  state.flush();
  state.file->sync();
  state.file->close();
  state.file.reset();
  state.result.sha256 = state.sha256.hex();
  return std::move(state.result);
}

WrittenFile write_safetensors(FileSystem& files, const std::filesystem::path& path,
                              std::span<const TensorData> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string, std::span<const std::byte>> data;
  for (const TensorData& tensor : tensors) {
    infos.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
    data.emplace(tensor.name, tensor.data);
  }
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  SafetensorsWriter writer(files, temporary, std::move(infos), metadata);
  for (const TensorInfo& tensor : writer.tensors()) {
    LONGHAUL_ASSERT(static_cast<int64_t>(data.at(tensor.name).size()) == tensor.bytes(),
                    "tensor '{}' has {} bytes, not {}", tensor.name, data.at(tensor.name).size(),
                    tensor.bytes());
    writer.write(data.at(tensor.name));
  }
  WrittenFile written = writer.finish();
  files.rename(temporary, path);
  files.sync_folder(path.parent_path());
  return written;
}

}  // namespace longhaul::storage
