
’
	map.proto
refused.v1"q
Box0
items (2.refused.v1.Box.ItemsEntryRitems8

ItemsEntry
key (	Rkey
value (	Rvalue:8bproto3