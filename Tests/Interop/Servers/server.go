// grpc.testing.TestService on gRPC Go, for clients that run the public interoperability cases.
//
//	server [--certificate CHAIN.pem --key KEY.pem]
//
// Prints its port, on loopback, and serves until its input ends. It compresses the answers of calls that came
// compressed, and no others: this library lets no handler choose.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "grpc/testing"
)

const initialKey, trailingKey = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func echoMetadata(context context.Context, setHeader func(metadata.MD) error, setTrailer func(metadata.MD)) {
	received, _ := metadata.FromIncomingContext(context)
	for _, value := range received.Get(initialKey) {
		_ = setHeader(metadata.Pairs(initialKey, value))
	}
	for _, value := range received.Get(trailingKey) {
		setTrailer(metadata.Pairs(trailingKey, value))
	}
}

func asked(echo *pb.EchoStatus) error {
	if echo.GetCode() == 0 {
		return nil
	}
	return status.Error(codes.Code(echo.GetCode()), echo.GetMessage())
}

func payload(size int32) *pb.Payload { return &pb.Payload{Body: make([]byte, size)} }

// answer writes what one request asks for. A wait ends with its call, so that it does not outlive the case.
func answer(stream grpc.ServerStream, request *pb.StreamingOutputCallRequest) error {
	for _, parameters := range request.GetResponseParameters() {
		select {
		case <-time.After(time.Duration(parameters.GetIntervalUs()) * time.Microsecond):
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		if err := stream.SendMsg(&pb.StreamingOutputCallResponse{Payload: payload(parameters.GetSize())}); err != nil {
			return err
		}
	}
	return nil
}

type service struct{}

func (service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

func (service) UnaryCall(context context.Context, request *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	echoMetadata(
		context,
		func(pairs metadata.MD) error { return grpc.SetHeader(context, pairs) },
		func(pairs metadata.MD) { _ = grpc.SetTrailer(context, pairs) })
	if err := asked(request.GetResponseStatus()); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{Payload: payload(request.GetResponseSize())}, nil
}

func (service) StreamingOutputCall(
	request *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer,
) error {
	if err := answer(stream, request); err != nil {
		return err
	}
	return asked(request.GetResponseStatus())
}

func (service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	size := 0
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
		}
		if err != nil {
			return err
		}
		size += len(request.GetPayload().GetBody())
	}
}

func (service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	echoMetadata(stream.Context(), stream.SetHeader, stream.SetTrailer)
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := asked(request.GetResponseStatus()); err != nil {
			return err
		}
		if err := answer(stream, request); err != nil {
			return err
		}
	}
}

func (service) HalfDuplexCall(stream pb.TestService_HalfDuplexCallServer) error {
	var requests []*pb.StreamingOutputCallRequest
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		requests = append(requests, request)
	}
	for _, request := range requests {
		if err := answer(stream, request); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	var options []grpc.ServerOption
	chain, key := flag.String("certificate", "", "PEM file to serve TLS with"), flag.String("key", "", "its private key")
	flag.Parse()
	if *chain != "" {
		certified, err := credentials.NewServerTLSFromFile(*chain, *key)
		check(err)
		options = append(options, grpc.Creds(certified))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, service{})
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	check(server.Serve(listener))
}
