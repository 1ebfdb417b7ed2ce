/*
 * hello - send a greeting of 12 bytes over TCP, in one segment.
 *
 *     hello ADDRESS PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    /* BEGIN SOLUTION */
    const char *text = "hello, world";
    if (write(fd, text, strlen(text)) < 0)
        perror("write");
    /* END SOLUTION */
    /* STUB
    // Write your code here.
    */
    close(fd);
    return 0;
}
