/*
 * hello - send a greeting over TCP.
 *
 *     hello ADDRESS PORT
 *
 * Your task: send the text, which has GREETING_BYTES bytes, with one write(2) to the connection.
 * See man 2 write.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GREETING_BYTES = 70 };

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &server.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&server, sizeof server) < 0) {
        perror("connect");
        return 1;
    }
    char text[GREETING_BYTES + 1];
    snprintf(text, sizeof text, "%-*s", GREETING_BYTES, "hello, world");
    (void)text; // Your line goes here.
    close(fd);
    return 0;
}
