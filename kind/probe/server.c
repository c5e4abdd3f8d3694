/*
 * The HTTP server: one request per connection, all connections in one loop. A client that is slow, or says nothing,
 * holds up nobody and is sent away after a while.
 */
#define _GNU_SOURCE /* accept4 */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 64
#define READ_SECONDS 10
#define WRITE_SECONDS 10
#define LINGER_SECONDS 2

/* LINGERING: answered, and reading on until the client has closed. Closing earlier, with bytes of the client's
 * unread, would make the kernel reset the connection, and the client might lose the answer. */
enum state { FREE, READING, WRITING, LINGERING };

static struct connection {
    int fd;
    enum state state;
    struct text in, out;
    size_t sent;
    int continued; /* whether 100 Continue was sent */
    time_t deadline;
} connections[CONNECTIONS];

static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static void enter(struct connection *connection, enum state state, int seconds)
{
    connection->state = state;
    connection->deadline = now() + seconds;
}

static void end(struct connection *connection)
{
    close(connection->fd);
    text_free(&connection->in);
    text_free(&connection->out);
    memset(connection, 0, sizeof *connection);
}

static void write_on(struct connection *connection)
{
    ssize_t done;

    while (connection->sent < connection->out.length) {
        done = send(connection->fd, connection->out.bytes + connection->sent,
                    connection->out.length - connection->sent, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (done < 0) {
            end(connection);
            return;
        }
        connection->sent += (size_t)done;
    }
    shutdown(connection->fd, SHUT_WR);
    enter(connection, LINGERING, LINGER_SECONDS);
}

static void reply(struct connection *connection, const struct request *request, int status)
{
    answer(request, status, &connection->out);
    if (connection->out.failed) {
        end(connection);
        return;
    }
    enter(connection, WRITING, WRITE_SECONDS);
    write_on(connection);
}

/* A client that waits for leave to send its body gets it; it sends the body in any case after a second or so. */
static void grant(struct connection *connection, const struct request *request)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if (connection->continued || request->head == 0 || !request->expects_continue)
        return;
    connection->continued = 1;
    if (send(connection->fd, interim, sizeof interim - 1, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
        end(connection);
}

static void read_on(struct connection *connection)
{
    static char bytes[64 * 1024];
    struct request request;
    ssize_t got = recv(connection->fd, bytes, sizeof bytes, 0);
    int status;

    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0) { /* gone before the request was whole */
        end(connection);
        return;
    }
    if (connection->state == LINGERING)
        return;
    text_add(&connection->in, bytes, (size_t)got);
    if (connection->in.failed) {
        end(connection);
        return;
    }
    status = request_read(connection->in.bytes, connection->in.length, &request);
    if (status == 0)
        grant(connection, &request);
    else
        reply(connection, &request, status);
}

static void expire(struct connection *connection)
{
    const struct request nothing = {0};

    if (connection->state == READING && connection->in.length > 0)
        reply(connection, &nothing, 408);
    else
        end(connection);
}

static void take(int listener)
{
    struct connection *connection = connections;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    while (connection->state != FREE) /* there is a free one: the listener is asked only then */
        connection++;
    connection->fd = fd;
    enter(connection, READING, READ_SECONDS);
}

/* Waits for something to happen, while anybody is connected a second at most, and does what it asks for. */
static int turn(int listener)
{
    struct pollfd polled[CONNECTIONS + 1];
    struct connection *whose[CONNECTIONS + 1];
    nfds_t count = 0, i;
    int room = 0;

    for (i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &connections[i];

        if (connection->state == FREE) {
            room = 1;
            continue;
        }
        polled[count] = (struct pollfd){connection->fd, connection->state == WRITING ? POLLOUT : POLLIN, 0};
        whose[count++] = connection;
    }
    polled[count] = (struct pollfd){room ? listener : -1, POLLIN, 0};
    if (poll(polled, count + 1, count > 0 ? 1000 : -1) < 0)
        return errno == EINTR ? 0 : -1;
    for (i = 0; i < count; i++) {
        if (polled[i].revents != 0 && whose[i]->state == WRITING)
            write_on(whose[i]);
        else if (polled[i].revents != 0)
            read_on(whose[i]);
        if (whose[i]->state != FREE && now() >= whose[i]->deadline)
            expire(whose[i]);
    }
    if (polled[count].revents != 0)
        take(listener);
    return 0;
}

/* A socket for an address of IPv6, which takes IPv4 too, or of IPv4; -1 with errno. host NULL: all addresses. */
static int open_socket(const char *host, unsigned int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int is_four = host != NULL && inet_pton(AF_INET, host, &four.sin_addr) == 1, yes = 1, no = 0, fd;

    if (host != NULL && !is_four && inet_pton(AF_INET6, host, &six.sin6_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    fd = is_four ? -1 : socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 && host != NULL && !is_four)
        return -1;
    if (fd < 0) { /* IPv4 was asked for, or this machine has no IPv6 */
        is_four = 1;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (!is_four)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six, is_four ? sizeof four : sizeof six) != 0
        || listen(fd, SOMAXCONN) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int serve(const char *host, unsigned int port)
{
    struct sockaddr_in6 address; /* the port is at the same place in both families */
    socklen_t length = sizeof address;
    int listener = open_socket(host, port);

    if (listener < 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        fprintf(stderr, "probe: cannot listen on %s, port %u: %s\n", host != NULL ? host : "any address", port,
                strerror(errno));
        return 1;
    }
    printf("probe: serving on port %u\n", ntohs(address.sin6_port));
    fflush(stdout);
    while (turn(listener) == 0)
        ;
    perror("probe: poll");
    return 1;
}
