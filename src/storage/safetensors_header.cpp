// The header of a safetensors file: one pass over its JSON that builds only the tensor list, then the checks
// of the byte ranges, in the order in which docs/formats/safetensors.md lists them.
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "base/error.h"
#include "base/text/text.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

namespace {

using nlohmann::json;

[[noreturn]] void malformed_header(const std::string& where, std::string what, std::string expected,
                                   std::string found) {
  throw Error({.code = ExitCode::kCheckpoint,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where,
               .hint = "the file is not a usable safetensors file: copy or download it again, or use another "
                       "checkpoint"});
}

std::string in_tensor(const std::string& where, std::string_view name) {
  return fmt::format("{}, tensor '{}'", where, brief(name));
}

// Receives the JSON's events and accepts only
//   {"__metadata__": {string: string…}, name: {"dtype": string, "shape": [n…], "data_offsets": [n, n]}…}
// so nesting, types and number forms are checked while reading, whatever the text claims.
class HeaderEvents {
 public:
  // The names the JSON library asks of a class that receives its events.
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  HeaderEvents(const std::string& where, const SafetensorsLimits& limits, SafetensorsHeader& header)
      : where_(where), limits_(limits), header_(header) {}

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(number_integer_t value) {
    return unexpected(fmt::format("the negative number {}", value));
  }
  bool number_float(number_float_t, const string_t& text) {
    return unexpected(
        fmt::format("the number {}, which is no 64-bit whole number written in digits", brief(text)));
  }
  bool binary(binary_t&) { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return unexpected(fmt::format("{}", value));
    if (place_ == Place::kShape) {
      if (static_cast<int64_t>(tensor_.shape.size()) >= limits_.rank) {
        malformed_header(in_tensor(where_, tensor_.name), "the tensor has too many dimensions",
                         fmt::format("at most {}", limits_.rank), "more");
      }
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = static_cast<int64_t>(value);
      return true;
    }
    return unexpected(fmt::format("the number {}", value));
  }

  bool string(string_t& value) {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(metadata_key_, value).second)
        duplicate("__metadata__ key", metadata_key_);
      return true;
    }
    if (place_ == Place::kTensor && field_ == Field::kDType) {
      const auto dtype = dtype_named(value);
      if (!dtype)
        malformed_header(in_tensor(where_, tensor_.name), "unknown dtype", "one of BOOL, U8 … F64, U64",
                         brief(value));
      tensor_.dtype = *dtype;
      field_ = Field::kNone;
      return true;
    }
    return unexpected("a string");
  }

  bool start_object(std::size_t) {
    if (place_ == Place::kStart) return enter(Place::kTop);
    if (place_ == Place::kTop) return enter(next_is_metadata_ ? Place::kMetadata : Place::kTensor);
    return unexpected("an object");
  }

  bool end_object() {
    if (place_ == Place::kTensor) {
      if (seen_ != 7) {
        malformed_header(in_tensor(where_, tensor_.name), "the tensor's description is incomplete",
                         "dtype, shape and data_offsets", "fewer fields");
      }
      header_.tensors.push_back(std::move(tensor_));
      tensor_ = {};
    }
    return enter(place_ == Place::kTop ? Place::kEnd : Place::kTop);
  }

  bool start_array(std::size_t) {
    if (place_ == Place::kTensor && field_ == Field::kShape) return enter(Place::kShape);
    if (place_ == Place::kTensor && field_ == Field::kOffsets) return enter(Place::kOffsets);
    return unexpected("an array");
  }

  bool end_array() {
    if (place_ == Place::kOffsets && offsets_ != 2)
      return unexpected("data_offsets of fewer than two numbers");
    field_ = Field::kNone;
    return enter(Place::kTensor);
  }

  bool key(string_t& name) {
    if (place_ == Place::kTop) return top_key(name);
    if (place_ == Place::kMetadata) {
      metadata_key_ = name;
      return true;
    }
    static constexpr std::array<std::pair<std::string_view, Field>, 3> kFields = {
        {{"dtype", Field::kDType}, {"shape", Field::kShape}, {"data_offsets", Field::kOffsets}}};
    for (const auto& [text, field] : kFields) {
      if (name != text) continue;
      const int bit = 1 << (static_cast<int>(field) - 1);
      if ((seen_ & bit) != 0) duplicate("field", name);
      seen_ |= bit;
      field_ = field;
      return true;
    }
    return unexpected(fmt::format("the field '{}'", brief(name)));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    malformed_header(
        where_, "the header is not valid JSON", "a JSON object in UTF-8",
        fmt::format("an error at byte {} of the header: {}", position, brief(error.what(), 200)));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  enum class Field { kNone, kDType, kShape, kOffsets };

  bool enter(Place place) {
    place_ = place;
    return true;
  }

  bool top_key(const std::string& name) {
    if (!names_.insert(name).second) duplicate("tensor name", name);
    next_is_metadata_ = name == "__metadata__";
    if (next_is_metadata_) return true;
    if (name.empty() || name.find('\0') != std::string::npos) {
      malformed_header(in_tensor(where_, name), "unusable tensor name",
                       "a name that is not empty and holds no NUL", "such a name");
    }
    if (static_cast<int64_t>(name.size()) > limits_.name_bytes) {
      malformed_header(in_tensor(where_, name), "the tensor's name is too long",
                       fmt::format("at most {} bytes", limits_.name_bytes),
                       fmt::format("{} bytes", name.size()));
    }
    if (static_cast<int64_t>(header_.tensors.size()) >= limits_.tensors) {
      malformed_header(where_, "the file has too many tensors", fmt::format("at most {}", limits_.tensors),
                       "more");
    }
    tensor_.name = name;
    seen_ = 0;
    offsets_ = 0;
    field_ = Field::kNone;
    return true;
  }

  [[noreturn]] void duplicate(std::string_view kind, std::string_view name) {
    malformed_header(where_, fmt::format("the header holds a {} twice", kind), "each once", brief(name));
  }

  bool unexpected(const std::string& found) {
    const std::string where = tensor_.name.empty() ? where_ : in_tensor(where_, tensor_.name);
    malformed_header(where, "the header does not have the form of a safetensors header",
                     R"({"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …})", found);
  }

  const std::string& where_;
  const SafetensorsLimits& limits_;
  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  Field field_ = Field::kNone;
  bool next_is_metadata_ = false;
  int seen_ = 0, offsets_ = 0;
  TensorInfo tensor_;
  std::string metadata_key_;
  std::unordered_set<std::string> names_;
};

// Ranges must tile the data: no gap, no overlap, nothing after the last one.
void check_ranges(SafetensorsHeader& header, int64_t file_bytes, const std::string& where) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t previous_end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    const std::string at = in_tensor(where, tensor.name);
    if (tensor.begin != previous_end || tensor.end < tensor.begin) {
      malformed_header(at, "the tensors' data do not follow one another",
                       fmt::format("data_offsets that begin at {}", previous_end),
                       fmt::format("[{}, {}]", tensor.begin, tensor.end));
    }
    const int64_t bytes = tensor_bytes(tensor.dtype, tensor.shape, at);
    if (bytes != tensor.bytes()) {
      malformed_header(
          at, "the tensor's data do not have the size of its shape",
          fmt::format("{} bytes for {} [{}]", bytes, name_of(tensor.dtype), fmt::join(tensor.shape, ", ")),
          fmt::format("{} bytes", tensor.bytes()));
    }
    previous_end = tensor.end;
  }
  // previous_end <= 2^63 - 1 and data_begin is small, so compare by subtraction.
  if (file_bytes - header.data_begin != previous_end) {
    malformed_header(
        where, "the file's size does not match its header",
        fmt::format("{} bytes of tensor data after {} bytes of header", previous_end, header.data_begin),
        fmt::format("{} bytes of data", file_bytes - header.data_begin));
  }
}

}  // namespace

int64_t tensor_bytes(DType dtype, std::span<const int64_t> shape, std::string_view where) {
  int64_t elements = 1, bits = 0;
  bool overflow = false;
  for (const int64_t size : shape)
    overflow = overflow || size < 0 || __builtin_mul_overflow(elements, size, &elements);
  overflow = overflow || __builtin_mul_overflow(elements, static_cast<int64_t>(bits_of(dtype)), &bits);
  if (overflow) {
    malformed_header(std::string(where), "the tensor's shape is too large", "a size that fits into 63 bits",
                     fmt::format("[{}]", fmt::join(shape, ", ")));
  }
  if (bits % 8 != 0) {
    malformed_header(std::string(where), "the tensor does not fill whole bytes", "a multiple of 8 bits",
                     fmt::format("{} bits", bits));
  }
  return bits / 8;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, int64_t file_bytes,
                                           const std::string& where, const SafetensorsLimits& limits) {
  if (file_bytes < 8 || start.size() < 8) {
    malformed_header(where, "the file is too short for a safetensors file", "at least 8 bytes",
                     fmt::format("{} bytes", file_bytes));
  }
  if (file_bytes > limits.total_bytes) {
    malformed_header(where, "the file is too large", fmt::format("at most {} bytes", limits.total_bytes),
                     fmt::format("{} bytes", file_bytes));
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<uint64_t>(start[static_cast<size_t>(i)]);
  if (length > static_cast<uint64_t>(limits.header_bytes)) {
    malformed_header(where, "the header is too long", fmt::format("at most {} bytes", limits.header_bytes),
                     fmt::format("{} bytes", length));
  }
  SafetensorsHeader header;
  header.data_begin = 8 + static_cast<int64_t>(length);
  if (header.data_begin > file_bytes || static_cast<uint64_t>(header.data_begin) > start.size()) {
    malformed_header(where, "the header reaches beyond the end of the file",
                     fmt::format("{} bytes or more", header.data_begin),
                     fmt::format("{} bytes: truncated?", file_bytes));
  }
  const auto* text = reinterpret_cast<const char*>(start.data()) + 8;
  if (length < 2 || text[0] != '{') {
    malformed_header(where, "the header does not begin with '{'", "a JSON object",
                     length == 0 ? "nothing" : brief({text, 1}));
  }
  // The JSON library takes a NUL for the end of the text.
  if (std::memchr(text, 0, length) != nullptr)
    malformed_header(where, "the header holds a NUL byte", "JSON in UTF-8", "a NUL byte");
  HeaderEvents events(where, limits, header);
  json::sax_parse(text, text + length, &events);
  check_ranges(header, file_bytes, where);
  return header;
}

}  // namespace longhaul::storage
