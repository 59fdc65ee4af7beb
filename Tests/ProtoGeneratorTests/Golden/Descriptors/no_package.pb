
!
no_package.proto"
Boxbproto3