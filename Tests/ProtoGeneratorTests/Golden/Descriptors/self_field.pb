
A
self_field.proto
refused.v1"
Box
self (	Rselfbproto3