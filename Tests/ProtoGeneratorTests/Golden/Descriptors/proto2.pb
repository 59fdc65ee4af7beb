
5
proto2.proto
refused.v1"
Box
name (	Rname