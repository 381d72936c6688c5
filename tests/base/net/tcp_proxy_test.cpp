#include "base/net/tcp_proxy.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/clock.h"
#include "base/process/process.h"

namespace longhaul {
namespace {

constexpr double kPatience_s = 60;

// Asked again and again, as sockets here never wait.
bool until(const std::function<bool()>& condition) {
  for (const Stopwatch watch; watch.seconds() < kPatience_s; pause_briefly()) {
    if (condition()) return true;
  }
  return false;
}

void send_all(Socket& socket, std::string_view bytes) {
  ASSERT_TRUE(until([&] {
    size_t written = 0;
    if (socket.write(bytes, written) == Socket::Result::kSome) bytes.remove_prefix(written);
    return bytes.empty();
  }));
}

std::string receive(Socket& socket, size_t bytes) {
  std::string got;
  EXPECT_TRUE(until([&] { return got.size() >= bytes || socket.read(got) == Socket::Result::kEnd; }));
  return got;
}

class Proxied : public ::testing::Test {
 protected:
  // A connection by way of the proxy: the client's end, and the server's.
  std::pair<Socket, Socket> connection() {
    Socket client = Socket::connect({"127.0.0.1", proxy_.port()});
    std::optional<Socket> server;
    EXPECT_TRUE(until([&] {
      server = server_.accept();
      return server.has_value();
    }));
    return {std::move(client), std::move(*server)};
  }

  Socket server_ = Socket::listen({"127.0.0.1", 0});
  TcpProxy proxy_{{"127.0.0.1", 0}, {"127.0.0.1", server_.port()}};
};

TEST_F(Proxied, BytesGoBothWaysInTheirOrder) {
  auto [client, server] = connection();
  std::string long_text;
  for (int i = 0; i < 50'000; ++i) long_text += std::to_string(i);
  send_all(client, "question");
  EXPECT_EQ(receive(server, 8), "question");
  std::string got;
  std::string_view rest = long_text;  // more than the sockets hold: both ends are served in turn
  ASSERT_TRUE(until([&] {
    size_t written = 0;
    if (!rest.empty() && server.write(rest, written) == Socket::Result::kSome) rest.remove_prefix(written);
    client.read(got);
    return got.size() >= long_text.size();
  }));
  EXPECT_EQ(got, long_text);
}

TEST_F(Proxied, TheEndOfOneSideIsTheOthers) {
  auto [client, server] = connection();
  client.close();
  std::string nothing;
  EXPECT_TRUE(until([&, &end = server] { return end.read(nothing) == Socket::Result::kEnd; }));
  EXPECT_EQ(nothing, "");
}

// Neither end hears that anything has happened, and a later connection works.
TEST_F(Proxied, ASilentConnectionIsHalfOpen) {
  auto [client, server] = connection();
  send_all(client, "a");
  EXPECT_EQ(receive(server, 1), "a");
  EXPECT_EQ(proxy_.silence("127.0.0.2"), 0) << "another peer";
  EXPECT_EQ(proxy_.silence("127.0.0.1"), 1);
  EXPECT_EQ(proxy_.silence("127.0.0.1"), 0) << "it is silent already";
  send_all(client, "b");
  send_all(server, "c");
  auto [second, its_server] = connection();
  send_all(second, "d");
  EXPECT_EQ(receive(its_server, 1), "d");
  std::string nothing;
  EXPECT_EQ(server.read(nothing), Socket::Result::kNothing);
  EXPECT_EQ(client.read(nothing), Socket::Result::kNothing);
}

}  // namespace
}  // namespace longhaul
