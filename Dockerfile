# The agent and the command line in one static binary, and nothing else:
#   docker build --build-arg VERSION=v0.1.0 -t registry.example.com/platform/lamplighter:v0.1.0 .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# Folder by folder, so that tests, docs and what was built here stay out.
COPY cmd/lamplighter cmd/lamplighter
COPY examples/install examples/install
COPY inventory inventory
COPY reconcile reconcile
COPY render render
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X lamplighter.dev/cmd/lamplighter/cli.stamp=${VERSION}" -o /lamplighter ./cmd/lamplighter

FROM scratch
# Git over HTTPS; zone files are in the binary.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /lamplighter /lamplighter
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/lamplighter"]
