#include "observe/protobuf.h"

#include <gtest/gtest.h>

namespace longhaul::observe {
namespace {

// The examples of protobuf.dev, "Encoding": field 1 = 150, and field 2 = "testing".
TEST(Protobuf, ThePublishedExamples) {
  EXPECT_EQ(ProtobufMessage().number(1, 150).bytes(), std::string_view("\x08\x96\x01", 3));
  EXPECT_EQ(ProtobufMessage().text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(ProtobufMessage().message(3, ProtobufMessage().number(1, 150)).bytes(),
            std::string_view("\x1a\x03\x08\x96\x01", 5));
}

// 1.0 is 0x3ff0000000000000 and 0x3f800000 (IEEE 754); field 16 needs a key of two bytes.
TEST(Protobuf, FixedWidthsAreLittleEndian) {
  EXPECT_EQ(ProtobufMessage().real(1, 1.0).bytes(), std::string_view("\x09\0\0\0\0\0\0\xf0\x3f", 9));
  EXPECT_EQ(ProtobufMessage().real(2, 1.0f).bytes(), std::string_view("\x15\0\0\x80\x3f", 5));
  EXPECT_EQ(ProtobufMessage().fixed(16, 0x0102030405060708).bytes(),
            std::string_view("\x81\x01\x08\x07\x06\x05\x04\x03\x02\x01", 10));
  EXPECT_EQ(ProtobufMessage().number(1, ~uint64_t{0}).bytes().size(), 11u);
}

}  // namespace
}  // namespace longhaul::observe
