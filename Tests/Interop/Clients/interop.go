// The public gRPC interoperability cases, run with gRPC Go.
//
//	interop HOST:PORT [AUTHORITY.pem]
//	interop --details HOST:PORT METHOD
//
// Prints one line a case and then "N passed, N failed"; exit status 1 when one failed. With --details it sends METHOD an
// empty message, and prints the code of the error that comes back and the google.rpc details in it, one a line.
// Source of the cases: grpc/grpc doc/interop-test-descriptions.md.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "grpc/testing"
)

const (
	largeRequest  = 271828
	largeResponse = 314159
)

var (
	requestSizes  = []int{27182, 8, 1828, 45904}
	responseSizes = []int{31415, 9, 2653, 58979}
)

type client struct {
	channel *grpc.ClientConn
	stub    pb.TestServiceClient
	context context.Context
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

func expectStatus(err error, code codes.Code) {
	expect(status.Code(err) == code, fmt.Sprintf("%v, expected %v", err, code))
}

func payload(size int) *pb.Payload { return &pb.Payload{Body: make([]byte, size)} }

func outputRequest(size, body int, interval int32) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{
		ResponseParameters: []*pb.ResponseParameters{{Size: int32(size), IntervalUs: interval}},
		Payload:            payload(body),
	}
}

func emptyUnary(c *client) {
	_, err := c.stub.EmptyCall(c.context, &pb.Empty{})
	check(err)
}

func largeUnary(c *client) {
	response, err := c.stub.UnaryCall(
		c.context, &pb.SimpleRequest{ResponseSize: largeResponse, Payload: payload(largeRequest)})
	check(err)
	expect(bytes.Equal(response.GetPayload().GetBody(), make([]byte, largeResponse)), "payload")
}

func clientStreaming(c *client) {
	stream, err := c.stub.StreamingInputCall(c.context)
	check(err)
	sum := 0
	for _, size := range requestSizes {
		check(stream.Send(&pb.StreamingInputCallRequest{Payload: payload(size)}))
		sum += size
	}
	response, err := stream.CloseAndRecv()
	check(err)
	expect(int(response.GetAggregatedPayloadSize()) == sum, "aggregated size")
}

func serverStreaming(c *client) {
	request := &pb.StreamingOutputCallRequest{}
	for _, size := range responseSizes {
		request.ResponseParameters = append(request.ResponseParameters, &pb.ResponseParameters{Size: int32(size)})
	}
	stream, err := c.stub.StreamingOutputCall(c.context, request)
	check(err)
	for _, size := range responseSizes {
		response, err := stream.Recv()
		check(err)
		expect(len(response.GetPayload().GetBody()) == size, "size")
	}
	_, err = stream.Recv()
	expect(err == io.EOF, fmt.Sprint("after the last response: ", err))
}

func pingPong(c *client) {
	stream, err := c.stub.FullDuplexCall(c.context)
	check(err)
	for index, size := range responseSizes {
		check(stream.Send(outputRequest(size, requestSizes[index], 0)))
		response, err := stream.Recv()
		check(err)
		expect(len(response.GetPayload().GetBody()) == size, "size")
	}
	check(stream.CloseSend())
	_, err = stream.Recv()
	expect(err == io.EOF, fmt.Sprint("after the last response: ", err))
}

func halfDuplex(c *client) {
	stream, err := c.stub.HalfDuplexCall(c.context)
	check(err)
	for _, size := range responseSizes {
		check(stream.Send(outputRequest(size, 0, 0)))
	}
	check(stream.CloseSend())
	for _, size := range responseSizes {
		response, err := stream.Recv()
		check(err)
		expect(len(response.GetPayload().GetBody()) == size, "size")
	}
	_, err = stream.Recv()
	expect(err == io.EOF, fmt.Sprint("after the last response: ", err))
}

func emptyStream(c *client) {
	stream, err := c.stub.FullDuplexCall(c.context)
	check(err)
	check(stream.CloseSend())
	_, err = stream.Recv()
	expect(err == io.EOF, fmt.Sprint("without a request: ", err))
}

func cancelAfterBegin(c *client) {
	inner, cancel := context.WithCancel(c.context)
	stream, err := c.stub.StreamingInputCall(inner)
	check(err)
	cancel()
	_, err = stream.CloseAndRecv()
	expectStatus(err, codes.Canceled)
}

func cancelAfterFirstResponse(c *client) {
	inner, cancel := context.WithCancel(c.context)
	stream, err := c.stub.FullDuplexCall(inner)
	check(err)
	check(stream.Send(outputRequest(31415, 27182, 0)))
	response, err := stream.Recv()
	check(err)
	expect(len(response.GetPayload().GetBody()) == 31415, "size")
	cancel()
	_, err = stream.Recv()
	expectStatus(err, codes.Canceled)
}

func timeoutOnSleepingServer(c *client) {
	inner, cancel := context.WithTimeout(c.context, 200*time.Millisecond)
	defer cancel()
	stream, err := c.stub.FullDuplexCall(inner)
	check(err)
	// The call may be over before it is written; what counts is how it ends.
	_ = stream.Send(outputRequest(1, 27182, 30_000_000))
	_, err = stream.Recv()
	expectStatus(err, codes.DeadlineExceeded)
}

func echoStatus(c *client, message string) {
	echo := &pb.EchoStatus{Code: 2, Message: message}
	_, err := c.stub.UnaryCall(c.context, &pb.SimpleRequest{ResponseStatus: echo})
	expectStatus(err, codes.Unknown)
	expect(status.Convert(err).Message() == message, "message of the unary call")

	stream, err := c.stub.FullDuplexCall(c.context)
	check(err)
	check(stream.Send(&pb.StreamingOutputCallRequest{ResponseStatus: echo}))
	check(stream.CloseSend())
	_, err = stream.Recv()
	expectStatus(err, codes.Unknown)
	expect(status.Convert(err).Message() == message, "message of the stream")
}

func statusCodeAndMessage(c *client) { echoStatus(c, "test status message") }

func specialStatusMessage(c *client) {
	echoStatus(c, "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n")
}

func customMetadata(c *client) {
	const initialKey, initialValue = "x-grpc-test-echo-initial", "test_initial_metadata_value"
	const trailingKey, trailingValue = "x-grpc-test-echo-trailing-bin", "\xab\xab\xab"
	outgoing := metadata.AppendToOutgoingContext(c.context, initialKey, initialValue, trailingKey, trailingValue)
	verify := func(header, trailer metadata.MD) {
		got := header.Get(initialKey)
		expect(len(got) == 1 && got[0] == initialValue, "initial metadata")
		got = trailer.Get(trailingKey)
		expect(len(got) == 1 && got[0] == trailingValue, "trailing metadata")
	}
	var header, trailer metadata.MD
	_, err := c.stub.UnaryCall(
		outgoing, &pb.SimpleRequest{ResponseSize: largeResponse, Payload: payload(largeRequest)},
		grpc.Header(&header), grpc.Trailer(&trailer))
	check(err)
	verify(header, trailer)

	stream, err := c.stub.FullDuplexCall(outgoing)
	check(err)
	check(stream.Send(outputRequest(largeResponse, largeRequest, 0)))
	check(stream.CloseSend())
	_, err = stream.Recv()
	check(err)
	_, err = stream.Recv()
	expect(err == io.EOF, fmt.Sprint("after the only response: ", err))
	header, err = stream.Header()
	check(err)
	verify(header, stream.Trailer())
}

func unimplementedMethod(c *client) {
	err := c.channel.Invoke(c.context, "/grpc.testing.TestService/UnimplementedCall", &pb.Empty{}, &pb.Empty{})
	expectStatus(err, codes.Unimplemented)
}

func unimplementedService(c *client) {
	err := c.channel.Invoke(c.context, "/grpc.testing.UnimplementedService/UnimplementedCall", &pb.Empty{}, &pb.Empty{})
	expectStatus(err, codes.Unimplemented)
}

func clientCompressedUnary(c *client) {
	request := &pb.SimpleRequest{
		ResponseSize: largeResponse, Payload: payload(largeRequest), ExpectCompressed: &pb.BoolValue{Value: true}}
	_, err := c.stub.UnaryCall(c.context, request)
	expectStatus(err, codes.InvalidArgument)
	response, err := c.stub.UnaryCall(c.context, request, grpc.UseCompressor("gzip"))
	check(err)
	expect(bytes.Equal(response.GetPayload().GetBody(), make([]byte, largeResponse)), "payload")
}

func serverCompressedUnary(c *client) {
	response, err := c.stub.UnaryCall(c.context, &pb.SimpleRequest{
		ResponseSize: largeResponse, Payload: payload(largeRequest), ResponseCompressed: &pb.BoolValue{Value: true}})
	check(err)
	expect(bytes.Equal(response.GetPayload().GetBody(), make([]byte, largeResponse)), "payload")
}

// gRPC Go compresses all messages of a stream or none.
func clientCompressedStreaming(c *client) {
	request := &pb.StreamingInputCallRequest{Payload: payload(27182), ExpectCompressed: &pb.BoolValue{Value: true}}
	stream, err := c.stub.StreamingInputCall(c.context)
	check(err)
	check(stream.Send(request))
	_, err = stream.CloseAndRecv()
	expectStatus(err, codes.InvalidArgument)

	stream, err = c.stub.StreamingInputCall(c.context, grpc.UseCompressor("gzip"))
	check(err)
	check(stream.Send(request))
	check(stream.Send(request))
	response, err := stream.CloseAndRecv()
	check(err)
	expect(response.GetAggregatedPayloadSize() == 2*27182, "aggregated size")
}

func serverCompressedStreaming(c *client) {
	request := &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{
		{Size: 31415, Compressed: &pb.BoolValue{Value: true}},
		{Size: 92653, Compressed: &pb.BoolValue{Value: false}},
	}}
	stream, err := c.stub.StreamingOutputCall(c.context, request)
	check(err)
	for _, parameters := range request.ResponseParameters {
		response, err := stream.Recv()
		check(err)
		expect(len(response.GetPayload().GetBody()) == int(parameters.Size), "size")
	}
	_, err = stream.Recv()
	expect(err == io.EOF, fmt.Sprint("after the last response: ", err))
}

var cases = []struct {
	name string
	run  func(*client)
}{
	{"empty_unary", emptyUnary},
	{"large_unary", largeUnary},
	{"client_streaming", clientStreaming},
	{"server_streaming", serverStreaming},
	{"ping_pong", pingPong},
	{"half_duplex", halfDuplex},
	{"empty_stream", emptyStream},
	{"cancel_after_begin", cancelAfterBegin},
	{"cancel_after_first_response", cancelAfterFirstResponse},
	{"timeout_on_sleeping_server", timeoutOnSleepingServer},
	{"status_code_and_message", statusCodeAndMessage},
	{"special_status_message", specialStatusMessage},
	{"custom_metadata", customMetadata},
	{"unimplemented_method", unimplementedMethod},
	{"unimplemented_service", unimplementedService},
	{"client_compressed_unary", clientCompressedUnary},
	{"server_compressed_unary", serverCompressedUnary},
	{"client_compressed_streaming", clientCompressedStreaming},
	{"server_compressed_streaming", serverCompressedStreaming},
}

// A connection of its own, and a plain call around the case: cancel_after_begin would pass without any server.
func run(target string, security grpc.DialOption, one func(*client)) (failure interface{}) {
	defer func() { failure = recover() }()
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	channel, err := grpc.DialContext(limited, target, security)
	check(err)
	defer channel.Close()
	c := &client{channel, pb.NewTestServiceClient(channel), limited}
	emptyUnary(c)
	one(c)
	emptyUnary(c)
	return nil
}

func printDetails(target, method string) {
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	channel, err := grpc.DialContext(limited, target, grpc.WithInsecure())
	check(err)
	defer channel.Close()
	converted := status.Convert(channel.Invoke(limited, method, &pb.Empty{}, &pb.Empty{}))
	fmt.Println("code", int(converted.Code()))
	for _, detail := range converted.Details() {
		switch detail := detail.(type) {
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				fmt.Println("field", violation.GetField())
			}
		case *errdetails.ErrorInfo:
			fmt.Println("reason", detail.GetReason())
		default:
			fmt.Printf("%T\n", detail)
		}
	}
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "--details" {
		printDetails(os.Args[2], os.Args[3])
		return
	}
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: interop HOST:PORT [AUTHORITY.pem] | --details HOST:PORT METHOD")
		os.Exit(2)
	}
	security := grpc.WithInsecure()
	if len(os.Args) == 3 {
		authority, err := credentials.NewClientTLSFromFile(os.Args[2], "")
		check(err)
		security = grpc.WithTransportCredentials(authority)
	}
	fmt.Println("gRPC Go", grpc.Version)
	failed := 0
	for _, one := range cases {
		if failure := run(os.Args[1], security, one.run); failure != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", one.name, failure)
		} else {
			fmt.Println("passed", one.name)
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(cases)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
