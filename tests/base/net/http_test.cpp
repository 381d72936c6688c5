// The client and the server against each other, and the server against raw requests, over real sockets of
// this machine.
#include "base/net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/net/http_server.h"
#include "base/net/network.h"
#include "base/net/socket.h"
#include "base/process/process.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <class Work>
std::string http_error(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Http, Addresses) {
  EXPECT_EQ(http_address("http://a:9090/x/").path, "/x");
  EXPECT_EQ(http_address("http://[::1]:81").host, "::1");
  EXPECT_EQ(http_address("http://a").port, 80);
  EXPECT_EQ(http_address("https://hooks.example/services/T0").port, 443);
  EXPECT_EQ(text_of(http_address("https://[::1]/x")), "https://[::1]:443/x");
  for (const char* bad :
       {"ftp://a", "a:9090", "http://", "http://a:0", "http://a:99999", "http://a b", "https://"})
    EXPECT_THROW(http_address(bad), Error) << bad;
  EXPECT_EQ(url_encoded("a b{\"c\"}+1"), "a%20b%7B%22c%22%7D%2B1");
}

TEST(Http, ErrorsNameTheAddress) {
  const HttpAddress nobody{.host = "127.0.0.1", .port = free_port()};
  EXPECT_THAT(http_error([&] { http_get(nobody, "/", 2); }),
              HasSubstr(fmt::format("127.0.0.1:{}", nobody.port)));
}

class HttpServing : public ::testing::Test {
 protected:
  static HttpReply echo(const HttpRequest& request) {
    if (request.path == "/throws") throw Error({.what = "a secret of the program"});
    if (request.path == "/long") return {.body = std::string(100'000, 'x')};
    std::string text = request.path + " " + request.accept;
    for (const auto& [name, value] : request.query) text += " " + name + "=" + value;
    return {.type = "text/plain", .body = text};
  }
  // One request as it is written here; the whole answer.
  std::string raw(const HttpServer& server, const std::string& request) const {
    const auto result =
        run_process({"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/\"$1\"; printf '%b' \"$2\" >&3; cat <&3",
                     "bash", std::to_string(server.port()), request},
                    {}, 20);
    return result.output;
  }
};

TEST_F(HttpServing, AnswersWhatIsAsked) {
  const HttpServer server({}, echo);
  const HttpAddress address = http_address("http://127.0.0.1:" + std::to_string(server.port()));
  const HttpAnswer answer = http_get(address, "/a%20b?x=1%262", 5);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "/a b */* x=1&2");
  EXPECT_THAT(http_error([&] { http_get(address, "/long", 5, 1000); }), HasSubstr("at most 1000 bytes"));
  EXPECT_EQ(http_get(address, "/long", 5, 100'000).body.size(), 100'000u);
}

TEST_F(HttpServing, OnlyReads) {
  const HttpServer server({}, echo);
  const HttpAddress address = http_address(server.url());
  EXPECT_EQ(http_post(address, "{}", "application/json", 5).status, 405);
  EXPECT_THAT(raw(server, "DELETE /x HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"),
              AllOf(HasSubstr(" 405 "), HasSubstr("Allow: GET, HEAD")));
  const std::string head = raw(server, "HEAD /x HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n");
  EXPECT_THAT(head, AllOf(HasSubstr(" 200 "), HasSubstr("X-Content-Type-Options: nosniff"),
                          HasSubstr("Content-Security-Policy: default-src 'none'")));
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << "no body: " << head;
}

TEST_F(HttpServing, RefusesNamesThatAreNotItsOwn) {
  const HttpServer server({.names = {"Watch.example"}}, echo);
  const auto status_for = [&](const std::string& host) {
    return raw(server, "GET / HTTP/1.1\\r\\nHost: " + host + "\\r\\n\\r\\n").substr(9, 3);
  };
  EXPECT_EQ(status_for("evil.example"), "421") << "a page of evil.example whose name leads here now";
  EXPECT_EQ(status_for("127.0.0.1.evil.example:80"), "421");
  EXPECT_EQ(status_for(""), "421");
  for (const char* host :
       {"127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:8080", "10.1.2.3:80", "watch.example:80"})
    EXPECT_EQ(status_for(host), "200") << host;
}

TEST_F(HttpServing, AsksForTheToken) {
  const HttpServer server({.token = "s3cret"}, echo);
  const auto with = [&](const std::string& header) {
    return raw(server, "GET / HTTP/1.1\\r\\nHost: localhost\\r\\n" + header + "\\r\\n");
  };
  EXPECT_THAT(with(""),
              AllOf(HasSubstr(" 401 "), HasSubstr("WWW-Authenticate: Basic"), Not(HasSubstr("s3cret"))));
  EXPECT_THAT(with("Authorization: Bearer s3cre\\r\\n"), HasSubstr(" 401 "));
  EXPECT_THAT(with("Authorization: Bearer s3cret\\r\\n"), HasSubstr(" 200 "));
  EXPECT_THAT(with("Authorization: Basic bG9uZ2hhdWw6czNjcmV0\\r\\n"), HasSubstr(" 200 "))
      << "longhaul:s3cret, as browsers send it";
}

TEST_F(HttpServing, AFailureIsTheServersOwn) {
  const HttpServer server({}, echo);
  const HttpAnswer answer = http_get(http_address(server.url()), "/throws", 5);
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
  EXPECT_EQ(http_get(http_address(server.url()), "/", 5).status, 200);
}

TEST_F(HttpServing, APortHasOneServer) {
  const HttpServer server({}, echo);
  EXPECT_THAT(http_error([&] { const HttpServer second({.port = server.port()}, echo); }),
              HasSubstr("it is in use"));
}

TEST_F(HttpServing, EndsAtOnceAndMayBeginAgain) {
  const Stopwatch watch;
  uint16_t port = 0;
  {
    const HttpServer server({}, echo);
    port = server.port();
    EXPECT_EQ(http_get(http_address(server.url()), "/", 5).status, 200);
  }
  const HttpServer again({.port = port}, echo);
  EXPECT_EQ(http_get(http_address(again.url()), "/", 5).status, 200);
  EXPECT_LT(watch.seconds(), 10);
}

// A connection by hand, with the first letter of a request; closed with the test.
Socket connected_to(const HttpServer& server) {
  Socket socket = Socket::connect({"127.0.0.1", server.port()});
  size_t written = 0;
  while (socket.write("G", written) == Socket::Result::kNothing) pause_briefly();
  return socket;
}

void write_all(Socket& socket, std::string_view text) {
  while (!text.empty()) {
    size_t written = 0;
    ASSERT_NE(socket.write(text, written), Socket::Result::kEnd);
    text.remove_prefix(written);
  }
}

std::string read_to_the_end(Socket& socket) {
  std::string all;
  while (true) {
    switch (socket.read(all)) {
      case Socket::Result::kEnd:
        return all;
      case Socket::Result::kNothing:
        pause_briefly();
        break;
      case Socket::Result::kSome:
        break;
    }
  }
}

TEST_F(HttpServing, ConnectionsThatOnlyWaitCostNobodyAnything) {
  const HttpServer server({.patience_s = 1e6}, echo);
  std::vector<Socket> slow;
  for (int i = 0; i < 200; ++i) slow.push_back(connected_to(server));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(http_get(http_address(server.url()), "/", 10).status, 200);
}

TEST_F(HttpServing, WhereTheyAreTooManyThoseThatAskForNothingGo) {
  const HttpServer server({.patience_s = 1e6, .most_connections = 8}, echo);
  std::vector<Socket> slow;
  for (int i = 0; i < 40; ++i) slow.push_back(connected_to(server));
  EXPECT_EQ(http_get(http_address(server.url()), "/", 10).status, 200);
  read_to_the_end(slow.front());  // the oldest was closed
  write_all(slow.back(), "ET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(read_to_the_end(slow.back()), HasSubstr(" 200 "));
}

// The deadline is of the whole request: a byte now and then does not move it.
TEST_F(HttpServing, ARequestByDropsIsCut) {
  const HttpServer server({.patience_s = 0.1}, echo);
  Socket socket = connected_to(server);
  std::string answer;
  bool cut = false;
  for (int i = 0; i < 7'000 && !cut; ++i) {
    size_t written = 0;
    cut = socket.write("a", written) == Socket::Result::kEnd || socket.read(answer) == Socket::Result::kEnd;
    pause_briefly();
  }
  EXPECT_TRUE(cut);
  EXPECT_EQ(answer, "");
}

TEST_F(HttpServing, WhoDoesNotTakeTheReplyHoldsUpNobody) {
  const HttpServer server({}, [](const HttpRequest& request) {
    return HttpReply{.body = request.path == "/large" ? std::string(32 << 20, 'x') : "small"};
  });
  Socket slow = connected_to(server);
  write_all(slow, "ET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(http_get(http_address(server.url()), "/", 10).body, "small");
  EXPECT_EQ(http_get(http_address(server.url()), "/large", 30).body.size(), size_t{32} << 20);
}

TEST_F(HttpServing, WhoHasSaidAllIsAnswered) {
  std::promise<void> goes_on;
  const auto told = goes_on.get_future().share();
  const HttpServer server({}, [&](const HttpRequest&) {
    told.wait();
    return HttpReply{.body = "late"};
  });
  Socket socket = connected_to(server);
  write_all(socket, "ET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ::shutdown(socket.descriptor(), SHUT_WR);
  goes_on.set_value();
  EXPECT_TRUE(read_to_the_end(socket).ends_with("\r\n\r\nlate"));
}

TEST_F(HttpServing, AHeaderOfAReplyBeginsNoOther) {
  const HttpServer server({}, [](const HttpRequest&) {
    return HttpReply{.headers = {{"Location", "/a\r\nSet-Cookie: x=1"}}};
  });
  EXPECT_THAT(raw(server, "GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"),
              HasSubstr("Location: /aSet-Cookie: x=1\r\n"));
}

// More requests than are answered at once: each gets its own answer.
TEST_F(HttpServing, ManyAtOnceAreAllAnswered) {
  const HttpServer server({}, echo);
  std::vector<Socket> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(connected_to(server));
  for (size_t i = 0; i < clients.size(); ++i)
    write_all(clients[i], fmt::format("ET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", i));
  for (size_t i = 0; i < clients.size(); ++i)
    EXPECT_TRUE(read_to_the_end(clients[i]).ends_with(fmt::format("\r\n\r\n/{} ", i))) << i;
}

// A connection by hand over which this text was sent.
Socket sent_to(const HttpServer& server, std::string_view text) {
  Socket socket = Socket::connect({"127.0.0.1", server.port()});
  size_t written = 0;
  while (socket.write(text.substr(0, 1), written) == Socket::Result::kNothing) pause_briefly();
  write_all(socket, text.substr(1));
  return socket;
}

std::string post_head(size_t body, const std::string& headers = "", const std::string& version = "1.1") {
  return fmt::format("POST /p HTTP/{}\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n", version, body,
                     headers);
}

HttpReply echo_body(const HttpRequest& request) {
  return {.type = "text/plain", .body = request.method + " " + request.body};
}

TEST_F(HttpServing, TakesBodiesUpToItsLimit) {
  const HttpServer server({.longest_body = 300'000}, echo_body);
  const HttpAddress address = http_address(server.url());
  const std::string longest(300'000, 'b');
  EXPECT_EQ(http_post(address, "{}", "application/json", 5).body, "POST {}");
  EXPECT_EQ(http_post(address, longest, "text/plain", 5).body, "POST " + longest);
  EXPECT_EQ(http_get(address, "/", 5).body, "GET ");
  Socket too_long = sent_to(server, post_head(300'001));
  EXPECT_THAT(read_to_the_end(too_long),
              AllOf(HasSubstr(" 413 Content Too Large"), HasSubstr("longer than 300000 bytes")));
  Socket chunks =
      sent_to(server, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(read_to_the_end(chunks), HasSubstr(" 411 Length Required"));
  EXPECT_THAT(raw(server, "PUT / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"),
              AllOf(HasSubstr(" 405 "), HasSubstr("Allow: GET, HEAD, POST")));
}

TEST_F(HttpServing, ABodyIsForWhoMayAsk) {
  const HttpServer server({.token = "s3cret", .longest_body = 100}, echo_body);
  Socket stranger = sent_to(server, post_head(5) + "12345");
  EXPECT_THAT(read_to_the_end(stranger), HasSubstr(" 401 "));
  Socket friendly = sent_to(server, post_head(5, "Authorization: Bearer s3cret\r\n") + "12345 and more");
  EXPECT_TRUE(read_to_the_end(friendly).ends_with("\r\n\r\nPOST 12345"));
}

TEST_F(HttpServing, GoesOnWhereAClientAsksWhetherItMay) {
  const HttpServer server({.patience_s = 1e6, .longest_body = 100}, echo_body);
  Socket careful = sent_to(server, post_head(5, "Expect: 100-continue\r\n"));
  std::string told;
  while (told.find("\r\n\r\n") == std::string::npos) {
    if (careful.read(told) == Socket::Result::kNothing) pause_briefly();
  }
  EXPECT_EQ(told, "HTTP/1.1 100 Continue\r\n\r\n");
  write_all(careful, "12345");
  EXPECT_TRUE(read_to_the_end(careful).ends_with("\r\n\r\nPOST 12345"));
  Socket old = sent_to(server, post_head(5, "Expect: 100-continue\r\n", "1.0") + "12345");
  EXPECT_TRUE(read_to_the_end(old).starts_with("HTTP/1.1 200 "))
      << "a client of HTTP/1.0 does not know interim answers";
  Socket strange = sent_to(server, post_head(5, "Expect: more\r\n"));
  EXPECT_THAT(read_to_the_end(strange), HasSubstr(" 417 "));
}

TEST_F(HttpServing, ABodyByDropsIsCut) {
  const HttpServer server({.patience_s = 0.1, .longest_body = 100'000}, echo_body);
  Socket slow = sent_to(server, post_head(10'000));
  std::string answer;
  bool cut = false;
  for (int i = 0; i < 7'000 && !cut; ++i) {
    size_t written = 0;
    cut = slow.write("a", written) == Socket::Result::kEnd || slow.read(answer) == Socket::Result::kEnd;
    pause_briefly();
  }
  EXPECT_TRUE(cut);
  EXPECT_EQ(answer, "");
}

TEST_F(HttpServing, HalfBodiesHoldUpNobodyAndAreNotAnswered) {
  std::atomic<int> answered = 0;
  const HttpServer server({.patience_s = 1e6, .longest_body = 100'000}, [&](const HttpRequest& request) {
    ++answered;
    return echo_body(request);
  });
  std::vector<Socket> half;
  for (int i = 0; i < 100; ++i) half.push_back(sent_to(server, post_head(1000) + "half of it"));
  ::shutdown(half.front().descriptor(), SHUT_WR);
  EXPECT_EQ(read_to_the_end(half.front()), "") << "the rest will not come";
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(http_post(http_address(server.url()), "whole", "text/plain", 10).body, "POST whole");
  EXPECT_EQ(answered, 10);
}

// Eight bodies of 200 KB that stay a byte short, where a megabyte may be held: the oldest go, and who sends
// all of his is answered.
TEST_F(HttpServing, WhereTooMuchIsHeldUnfinishedBodiesGo) {
  const HttpServer server({.patience_s = 1e6, .longest_body = 200'000, .most_held = 1'000'000}, echo_body);
  std::vector<Socket> short_by_one;
  for (int i = 0; i < 8; ++i)
    short_by_one.push_back(sent_to(server, post_head(200'000) + std::string(199'999, 'x')));
  EXPECT_EQ(read_to_the_end(short_by_one.front()), "");
  EXPECT_EQ(http_post(http_address(server.url()), std::string(200'000, 'y'), "text/plain", 20).body.size(),
            200'005u);
}

TEST_F(HttpServing, FinishesWhatItWasAsked) {
  std::promise<void> goes_on, was_asked;
  const auto told = goes_on.get_future().share();
  HttpServer server({.patience_s = 1e6, .longest_body = 100}, [&](const HttpRequest& request) {
    was_asked.set_value();
    told.wait();
    return echo_body(request);
  });
  Socket silent = Socket::connect({"127.0.0.1", server.port()});
  Socket asking = sent_to(server, post_head(5) + "12345");
  was_asked.get_future().wait();
  Worker ending("ending");
  std::atomic<bool> finished = false;
  ending.post([&] {
    server.finish(100);
    finished = true;
  });
  EXPECT_EQ(read_to_the_end(silent), "") << "who asked nothing is not waited for";
  EXPECT_THAT(http_error([&] { http_get(http_address(server.url()), "/", 5); }),
              HasSubstr("a server that listens there"));
  EXPECT_FALSE(finished);
  goes_on.set_value();
  EXPECT_TRUE(read_to_the_end(asking).ends_with("\r\n\r\nPOST 12345"));
  asking.close();
  ending.wait();
  EXPECT_TRUE(finished);
}

TEST_F(HttpServing, AnswersWithAsManyThreadsAsAsked) {
  std::promise<void> goes_on;
  const auto told = goes_on.get_future().share();
  std::atomic<int> at_once = 0;
  const HttpServer server({.threads = 6}, [&](const HttpRequest&) {
    if (++at_once == 6) goes_on.set_value();  // only six that answer at the same time come so far
    told.wait();
    return HttpReply{.body = "all"};
  });
  std::vector<Socket> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(sent_to(server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  for (Socket& client : clients) EXPECT_TRUE(read_to_the_end(client).ends_with("all"));
}

TEST(Http, WhereToListen) {
  EXPECT_EQ(http_server_address("8080").port, 8080);
  EXPECT_EQ(http_server_address("8080").host, "127.0.0.1");
  EXPECT_EQ(http_server_address("[::1]:80").host, "::1");
  EXPECT_EQ(http_server_address("0.0.0.0:80").host, "0.0.0.0");
  for (const char* bad : {"", "x", ":80", "h:99999", "80x", "h:-1"})
    EXPECT_THROW(http_server_address(bad), Error) << bad;
}

// A server that takes a connection and says nothing, or says it a byte at a time.
TEST(Http, WaitsNoLongerThanAsked) {
  const Listener silent = listen_on(0);
  const Stopwatch watch;
  EXPECT_THAT(http_error([&] { http_get({.host = "127.0.0.1", .port = silent.port}, "/", 0.3); }),
              HasSubstr("an answer within 0.3 seconds"));
  EXPECT_LT(watch.seconds(), 5);
  run_process({"true"});  // the listener's descriptor ends with the process
}

std::string reply_of(Socket& socket, const std::string& version = "1.1") {
  write_all(socket, "ET / HTTP/" + version + "\r\nHost: localhost\r\n\r\n");
  return read_to_the_end(socket);
}

TEST_F(HttpServing, AnswersComePieceByPiece) {
  const HttpServer server({}, [](const HttpRequest&, const std::shared_ptr<HttpResponder>& responder) {
    responder->begin({.type = "text/plain", .body = "first,"});
    responder->add(std::string(70'000, 'x'));
    responder->add("last");
    responder->end();
  });
  const std::string body = "first," + std::string(70'000, 'x') + "last";
  EXPECT_EQ(http_get(http_address(server.url()), "/", 10).body, body);
  Socket newer = connected_to(server), older = connected_to(server);
  const std::string in_chunks = reply_of(newer), plain = reply_of(older, "1.0");
  EXPECT_THAT(in_chunks, AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"),
                               HasSubstr("\r\n\r\n6\r\nfirst,\r\n"), Not(HasSubstr("Content-Length"))));
  EXPECT_TRUE(in_chunks.ends_with("4\r\nlast\r\n0\r\n\r\n"));
  EXPECT_TRUE(plain.ends_with("\r\n\r\n" + body)) << plain.substr(0, 300);
}

// Eight answers wait without an end, which is twice as many as there are threads.
TEST_F(HttpServing, LateAnswersKeepNoThreadWaiting) {
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpResponder>> late;
  const HttpServer server({.threads = 4},
                          [&](const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
                            if (request.path == "/now") return responder->reply({.body = "now"});
                            const std::lock_guard hold(mutex);
                            late.push_back(responder);
                          });
  std::vector<Socket> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.push_back(connected_to(server));
    write_all(waiting.back(), "ET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const auto count = [&] {
    const std::lock_guard hold(mutex);
    return late.size();
  };
  while (count() < 8) pause_briefly();
  EXPECT_EQ(http_get(http_address(server.url()), "/now", 10).body, "now");
  late[5]->reply({.body = "five"});
  std::promise<void> has_left;
  late[6]->on_gone([&] { has_left.set_value(); });
  EXPECT_FALSE(late[6]->gone());
  int answered = 0;
  for (Socket& socket : waiting) socket = {};  // all leave, of whom one was answered
  has_left.get_future().wait();
  while (!late[7]->gone()) pause_briefly();
  late[7]->on_gone([&] { ++answered; });
  EXPECT_EQ(answered, 1) << "who has left is told of at once";
}

TEST_F(HttpServing, WhatIsNeverAnsweredIsAFailure) {
  const HttpServer server({},
                          [](const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
                            if (request.path == "/half") responder->begin({.body = "half"});
                          });
  EXPECT_EQ(http_get(http_address(server.url()), "/", 10).status, 500);
  EXPECT_THAT(http_error([&] { http_get(http_address(server.url()), "/half", 10); }),
              Not(HasSubstr("no error")))
      << "its end is missing";
}

TEST_F(HttpServing, RefusalsHaveTheFormOfTheServer) {
  HttpServerOptions options{.token = "s3cret"};
  options.refusal_form = [](const HttpReply& refusal) {
    HttpReply reply = refusal;
    reply.body = "formed";
    return reply;
  };
  const HttpServer server(options, echo);
  const HttpAnswer answer = http_get(http_address(server.url()), "/", 10);
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.body, "formed");
}

}  // namespace
}  // namespace longhaul
