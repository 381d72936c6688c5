// Connections that nothing waits for: addresses, ports that are taken, ends that close.
#include "base/net/socket.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/net/event_loop.h"

namespace longhaul {
namespace {

ExitCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kDone;
}

TEST(Socket, Addresses) {
  EXPECT_EQ(parse_endpoint("10.0.0.1:29400", "--driver").host, "10.0.0.1");
  EXPECT_EQ(parse_endpoint("[::1]:80", "--driver").host, "::1");
  EXPECT_EQ(parse_endpoint("[::1]:80", "--driver").text(), "[::1]:80");
  EXPECT_EQ(parse_endpoint("name:0", "--driver").text(), "name:0");
  for (const char* bad : {"", "host", "host:", ":80", "host:x", "host:-1", "host:65536", "host:80 "})
    EXPECT_EQ(code_of([&] { parse_endpoint(bad, "--driver"); }), ExitCode::kUsage) << bad;
}

TEST(Socket, BytesGoBothWaysAndEndsAreSeen) {
  const Socket listening = Socket::listen({"127.0.0.1", 0});
  Socket client = Socket::connect({"127.0.0.1", listening.port()});
  EventLoop loop;
  Socket server;
  loop.watch(listening.descriptor(), {.reads = true}, [&](Ready) {
    server = std::move(*listening.accept());
    loop.stop();
  });
  loop.run();
  EXPECT_FALSE(listening.accept()) << "nobody else waits";
  EXPECT_EQ(client.problem(), 0);
  EXPECT_EQ(client.own_address(), "127.0.0.1");
  EXPECT_EQ(client.peer(), fmt::format("127.0.0.1:{}", listening.port()));

  std::string got;
  EXPECT_EQ(server.read(got), Socket::Result::kNothing);
  size_t written = 0;
  EXPECT_EQ(client.write("hello", written), Socket::Result::kSome);
  EXPECT_EQ(written, 5u);
  for (const Stopwatch watch; got.size() < 5 && watch.seconds() < 5;) server.read(got, 2);
  EXPECT_EQ(got, "hello");
  client.close();
  Socket::Result result = Socket::Result::kNothing;
  for (const Stopwatch watch; result == Socket::Result::kNothing && watch.seconds() < 5;)
    result = server.read(got);
  EXPECT_EQ(result, Socket::Result::kEnd);
}

TEST(Socket, AFullConnectionTakesNothingMore) {
  const Socket listening = Socket::listen({"127.0.0.1", 0});
  Socket client = Socket::connect({"127.0.0.1", listening.port()});
  const std::string block(1 << 20, 'x');
  Socket::Result result = Socket::Result::kSome;
  size_t written = 0, total = 0;
  for (const Stopwatch watch; watch.seconds() < 5; total += written) {
    result = client.write(block, written);
    if (total > 0 && result == Socket::Result::kNothing) break;
  }
  EXPECT_EQ(result, Socket::Result::kNothing);
  EXPECT_EQ(written, 0u);
}

TEST(Socket, PortsThatAreTakenAndAddressesOfOthers) {
  const Socket listening = Socket::listen({"127.0.0.1", 0});
  EXPECT_EQ(code_of([&] { Socket::listen({"127.0.0.1", listening.port()}); }), ExitCode::kCommunication);
  // RFC 5737: nobody's
  EXPECT_EQ(code_of([&] { Socket::listen({"192.0.2.1", 0}); }), ExitCode::kCommunication);
  // RFC 6761: never exists
  EXPECT_EQ(code_of([&] { Socket::listen({"nowhere.invalid", 0}); }), ExitCode::kCommunication);
}

TEST(Socket, NobodyListens) {
  uint16_t port = 0;
  {
    const Socket listening = Socket::listen({"127.0.0.1", 0});
    port = listening.port();
  }
  const Socket client = Socket::connect({"127.0.0.1", port});
  EventLoop loop;
  loop.watch(client.descriptor(), {.writes = true}, [&](Ready) { loop.stop(); });
  loop.run();
  EXPECT_NE(client.problem(), 0);
}

}  // namespace
}  // namespace longhaul
