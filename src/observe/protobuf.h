// ProtobufMessage: writes a message in the wire format of protocol buffers: of each field a key (field number
// and wire type), then a varint, four or eight bytes in little-endian order, or a counted text. Callers leave
// out fields that hold their default, as proto3 does. Source: protobuf.dev, "Encoding".
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::observe {

class ProtobufMessage {
 public:
  ProtobufMessage& number(int field, uint64_t value) {
    key(field, 0);
    return varint(value);
  }
  ProtobufMessage& fixed(int field, uint64_t value) {
    key(field, 1);
    return little_endian(value, 8);
  }
  ProtobufMessage& real(int field, double value) { return fixed(field, std::bit_cast<uint64_t>(value)); }
  ProtobufMessage& real(int field, float value) {
    key(field, 5);
    return little_endian(std::bit_cast<uint32_t>(value), 4);
  }
  ProtobufMessage& text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, uint64_t wire_type) { varint(static_cast<uint64_t>(field) << 3 | wire_type); }
  ProtobufMessage& varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  ProtobufMessage& little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

}  // namespace longhaul::observe
