%% Erlang/OTP as a peer. Server node: pb:server(). Client node: pb:client([Label, Server, Ms | What]) with What of {rr,Outstanding},
%% {ow,Size}, {n4,gen_tcp|ssl}, {chain,Outstanding,ThirdNode} and e4, each for Ms milliseconds. In process: pb:local([What]) with e1a, e1b, e2a, e2b, {e3,Callers}.
-module(pb).
-behaviour(gen_server).
-compile([export_all, nowarn_export_all]).
-export([init/1,handle_call/3,handle_cast/2,handle_info/2]).

init(_) -> {ok, 0}.
handle_call({echo,B},_,S) -> {reply,B,S};
%% a third node is asked: a process of its own waits meanwhile, or the server itself does
handle_call({via,Third,B},From,S) -> spawn(fun() -> gen_server:reply(From,gen_server:call({echo,Third},{echo,B},60000)) end), {noreply,S};
handle_call({block,Third,B},_,S) -> {reply,gen_server:call({echo,Third},{echo,B},60000),S};
handle_call(sync,_,S) -> {reply,S,S}.
handle_cast(_,S) -> {noreply,S+1}.
handle_info(_,S) -> {noreply,S+1}.

%% ---------- server side
server() ->
    {ok,_} = gen_server:start({local,echo},?MODULE,[],[]),
    [ {ok,_} = gen_server:start({local,list_to_atom("echo"++integer_to_list(I))},?MODULE,[],[]) || I <- lists:seq(1,16)],
    register(sink, spawn(fun sink/0)),
    timer:sleep(150000), halt(0).
sink() -> receive {sync,P,R} -> P ! {R,ok}; _ -> ok end, sink().
ospid() -> list_to_integer(os:getpid()).

cpu(Pids) when is_list(Pids) -> lists:sum([cpu(P) || P <- Pids]);
cpu(Pid) ->
    {ok,B} = file:read_file("/proc/"++integer_to_list(Pid)++"/stat"),
    [_,Rest] = binary:split(B,<<") ">>),
    F = binary:split(Rest,<<" ">>,[global]),
    (binary_to_integer(lists:nth(12,F))+binary_to_integer(lists:nth(13,F)))/100.

%% background load in cores: whole machine busy minus own and server processes, between bg0() and emit
busy() -> {ok,B} = file:read_file("/proc/stat"), [L|_] = binary:split(B,<<"\n">>), [_|F] = [X || X <- binary:split(L,<<" ">>,[global]), X =/= <<>>],
    [U,N,S,_,_,Q,SQ,St|_] = [binary_to_integer(X) || X <- F], (U+N+S+Q+SQ+St)/100.
own() -> cpu(ospid()) + case get(sp) of undefined -> 0; P -> cpu(P) end.
bg0() -> put(bg,{busy(),own(),now_ns()}).
bg() -> {B,O,T} = get(bg), W = (now_ns()-T)/1.0e9, if W < 0.05 -> 0.0; true -> max(0.0,((busy()-B)-(own()-O))/W) end.
emit(Wl,Param,Metric,V,Unit) ->
    io:format("{\"peer\":\"erlang\",\"workload\":\"~s\",\"param\":\"~s\",\"metric\":\"~s\",\"value\":~p,\"unit\":\"~s\",\"bg\":~.2f}~n",[Wl,Param,Metric,V*1.0,Unit,bg()]).
now_ns() -> erlang:monotonic_time(nanosecond).

%% ---------- network request/reply
client([LabelA,Srv,Ms|What]) ->
    Label = atom_to_list(LabelA), put(ms,Ms),
    connect(Srv,100),
    SP = rpc:call(Srv,?MODULE,ospid,[]), put(sp,SP),
    B = binary:copy(<<"x">>,64),
    %% warm-up
    rr(Srv,B,16,300,fun call1/3),
    [ run(W,Label,Srv,SP,B) || W <- What ],
    rpc:cast(Srv,erlang,halt,[0]), timer:sleep(200), halt(0).
connect(_,0) -> io:format(standard_error,"no connect~n",[]), halt(1);
connect(S,N) -> case net_kernel:connect_node(S) of true -> case rpc:call(S,erlang,whereis,[sink]) of P when is_pid(P) -> ok; _ -> timer:sleep(100),connect(S,N-1) end; _ -> timer:sleep(100), connect(S,N-1) end.

call1(Srv,B,_I) -> gen_server:call({echo,Srv},{echo,B},60000).
call16(Srv,B,I) -> gen_server:call({element(I rem 16+1,{echo1,echo2,echo3,echo4,echo5,echo6,echo7,echo8,echo9,echo10,echo11,echo12,echo13,echo14,echo15,echo16}),Srv},{echo,B},60000).

name(1,_) -> echo;
name(N,I) -> element(I rem N+1,{echo1,echo2,echo3,echo4,echo5,echo6,echo7,echo8,echo9,echo10,echo11,echo12,echo13,echo14,echo15,echo16}).

%% O processes each with one outstanding call, Ms milliseconds
rr(Srv,B,O,Ms,F) ->
    Me = self(), End = now_ns()+Ms*1000000,
    Ps = [ spawn(fun() -> {N,L} = rrl(Srv,B,I,End,F,0,[]), Me ! {self(),N,L} end) || I <- lists:seq(1,O) ],
    R = [ receive {P,N,L} -> {N,L} end || P <- Ps ],
    {lists:sum([N||{N,_}<-R]), lists:append([L||{_,L}<-R])}.
rrl(Srv,B,I,End,F,N,L) ->
    T = now_ns(),
    if T >= End -> {N,L};
       true -> F(Srv,B,I), D = now_ns()-T,
               rrl(Srv,B,I,End,F,N+1,if N rem 8 =:= 0 -> [D|L]; true -> L end) end.

pct(L,P) -> S = lists:sort(L), case length(S) of 0 -> 0; N -> lists:nth(max(1,round(P*N)),S)/1000 end.
meas_rr(Wl,Label,SP,Fun) ->
    bg0(), C0 = cpu(ospid()), S0 = cpu(SP), T0 = now_ns(),
    {N,L} = Fun(),
    W = (now_ns()-T0)/1.0e9, C = cpu(ospid())-C0 + cpu(SP)-S0,
    emit(Wl,Label,"rate",N/W,"req/s"),
    emit(Wl,Label,"p50_us",pct(L,0.5),"us"), emit(Wl,Label,"p99_us",pct(L,0.99),"us"),
    emit(Wl,Label,"cpu_per_million",C/N*1.0e6,"cpu_s/1e6").

run({rr,O},Lb,Srv,SP,B) ->
    meas_rr("rr",Lb++",gen_server:call 1 server process",SP,fun() -> rr(Srv,B,O,get(ms),fun call1/3) end),
    meas_rr("rr",Lb++",gen_server:call 16 server processes",SP,fun() -> rr(Srv,B,O,get(ms),fun call16/3) end);
run({ow,Z},Lb,Srv,SP,_) ->
    Bin = binary:copy(<<"y">>,Z), bg0(), C0 = cpu(ospid()), S0 = cpu(SP), T0 = now_ns(),
    N = oneway(Srv,Bin,T0+get(ms)*1000000,0), W = (now_ns()-T0)/1.0e9, C = cpu(ospid())-C0+cpu(SP)-S0,
    emit("ow",Lb,"rate",N/W,"msg/s"), emit("ow",Lb,"mb_per_s",N*Z/W/1.0e6,"MB/s"), emit("ow",Lb,"cpu_per_million",C/N*1.0e6,"cpu_s/1e6");
run({chain,O,Third},Lb,Srv,SP,B) ->
    connect(Third,100), pong = rpc:call(Srv,net_adm,ping,[Third]), All = [SP,rpc:call(Third,?MODULE,ospid,[])], put(sp,All),
    [ meas_rr("chain",Lb++","++P,All,fun() -> rr(Srv,B,O,get(ms),fun(S,X,I) -> gen_server:call({name(N,I),S},{How,Third,X},60000) end) end) ||
      {P,N,How} <- [{"1 server process, spawns",1,via},{"16 server processes, spawn",16,via},{"16 server processes, wait",16,block}] ];
run({n4,M},Lb,Srv,SP,B) -> n4(M,Lb,Srv,SP,B);
run(e4,_,Srv,SP,_) -> e4(Srv,SP,'tlsv1.3',false,4).

oneway(Srv,Bin,End,N) ->
    case now_ns() >= End of
        true -> R = make_ref(), {sink,Srv} ! {sync,self(),R}, receive {R,ok} -> N end;
        false -> D = {sink,Srv}, K = if byte_size(Bin) > 4096 -> 4; true -> 64 end, snd(D,Bin,K), oneway(Srv,Bin,End,N+K)
    end.
snd(_,_,0) -> ok;
snd(D,B,N) -> D ! B, snd(D,B,N-1).

%% ---------- N4: 64 sockets x 16 outstanding, {packet,4}; process per connection on both sides
certs(Who) -> D = "../certs/", [{certfile,D++Who++".pem"},{keyfile,D++Who++".key"},{cacertfile,D++"ca.pem"},{verify,verify_peer}].
sopts() -> certs("server")++[{fail_if_no_peer_cert,true}].
n4_listen(gen_tcp) -> {ok,L} = gen_tcp:listen(0,[binary,{packet,4},{active,false},{nodelay,true},{ip,{127,0,0,1}},{backlog,512}]),
    spawn_owner(fun() -> n4acc(gen_tcp,L) end,gen_tcp,L), {ok,P} = inet:port(L), P;
n4_listen(ssl) -> ssl:start(), {ok,L} = ssl:listen(0,[binary,{packet,4},{active,false},{nodelay,true},{ip,{127,0,0,1}},{backlog,512}|sopts()]),
    spawn_owner(fun() -> n4acc(ssl,L) end,ssl,L), {ok,{_,P}} = ssl:sockname(L), P.
spawn_owner(F,_M,_L) -> spawn(F).
n4_start(M) -> Me = self(), spawn(fun() -> P = n4_listen(M), Me ! {port,P}, timer:sleep(20000) end), receive {port,P} -> P end.
n4acc(gen_tcp,L) -> case gen_tcp:accept(L) of {ok,S} -> P = spawn(fun() -> receive go -> ok end, inet:setopts(S,[{active,true}]), n4srv(gen_tcp,S) end), gen_tcp:controlling_process(S,P), P ! go, n4acc(gen_tcp,L); _ -> ok end;
n4acc(ssl,L) -> case ssl:transport_accept(L) of {ok,S} -> P = spawn(fun() -> receive go -> ok end, {ok,S2} = ssl:handshake(S), ssl:setopts(S2,[{active,true}]), n4srv(ssl,S2) end), ssl:controlling_process(S,P), P ! go, n4acc(ssl,L); _ -> ok end.
n4srv(M,S) -> receive {tcp,S,B} -> M:send(S,B), n4srv(M,S); {ssl,S,B} -> M:send(S,B), n4srv(M,S); {tcp_closed,S} -> ok; {ssl_closed,S} -> ok end.
n4(M,Lb,Srv,SP,B) ->
    Port = rpc:call(Srv,?MODULE,n4_start,[M]), Me = self(), ssl:start(),
    Ps = [ spawn(fun() -> {ok,S} = case M of gen_tcp -> gen_tcp:connect({127,0,0,1},Port,[binary,{packet,4},{active,true},{nodelay,true}]); ssl -> ssl:connect({127,0,0,1},Port,[binary,{packet,4},{active,true},{nodelay,true}|certs("client")]) end,
            Me ! {ready,self()}, receive {go,End} -> ok end, [ M:send(S,<<(now_ns()):64/signed,B/binary>>) || _ <- lists:seq(1,16) ],
            {N,L} = n4cli(M,S,B,End,16,0,[]), Me ! {self(),N,L}, M:close(S) end) || _ <- lists:seq(1,64) ],
    [ receive {ready,P} -> ok after 10000 -> exit(n4) end || P <- Ps ],
    meas_rr("n4",Lb++",64 "++atom_to_list(M)++" sockets x16",SP,fun() ->
        End = now_ns()+get(ms)*1000000, [ P ! {go,End} || P <- Ps ], R = [ receive {P,N,L} -> {N,L} end || P <- Ps ], {lists:sum([N||{N,_}<-R]), lists:append([L||{_,L}<-R])} end).
n4cli(_,_,_,_,0,N,L) -> {N,L};
n4cli(M,S,B,End,O,N,L) ->
    Bin = receive {tcp,S,X} -> X; {ssl,S,X} -> X end, <<T0:64/signed,_/binary>> = Bin, T = now_ns(), L1 = if N rem 8 =:= 0 -> [T-T0|L]; true -> L end,
    if T < End -> M:send(S,<<T:64/signed,B/binary>>), n4cli(M,S,B,End,O,N+1,L1); true -> n4cli(M,S,B,End,O-1,N+1,L1) end.

%% ---------- E4
e4_start(V) -> Me = self(), spawn(fun() -> ssl:start(), {ok,L} = ssl:listen(0,[binary,{active,false},{ip,{127,0,0,1}},{backlog,512},{versions,[V]},{nodelay,true},{reuseaddr,true}|sopts()]), {ok,{_,P}} = ssl:sockname(L),
        [spawn(fun() -> e4acc(L) end) || _ <- lists:seq(1,8)], Me ! {port,P}, timer:sleep(20000) end), receive {port,P} -> P end.
e4acc(L) -> case ssl:transport_accept(L) of {ok,S} -> case ssl:handshake(S,5000) of {ok,S2} -> ssl:send(S2,<<"x">>), ssl:recv(S2,0,5000), ssl:close(S2); E -> io:format(standard_error,"~p~n",[E]) end, e4acc(L); _ -> ok end.
e4(Srv,SP,V,Re,C) ->
    Port = rpc:call(Srv,?MODULE,e4_start,[V]), ssl:start(),
    Ro = case Re of true -> [{reuse_sessions,true}]; false when V =:= 'tlsv1.2' -> [{reuse_sessions,false}]; false -> [] end,
    Opts = [binary,{active,false},{nodelay,true},{versions,[V]}|certs("client")]++Ro,
    case Re of true -> {ok,S0} = ssl:connect({127,0,0,1},Port,[{reuse_sessions,save}|Opts--Ro],5000), ssl:recv(S0,0,5000), ssl:close(S0); _ -> ok end,
    bg0(), T0 = now_ns(), C0 = cpu(ospid()), S00 = cpu(SP), Me = self(), End = T0+get(ms)*1000000,
    Ps = [ spawn(fun() -> Me ! {self(),e4cli(Port,Opts,End,0,0)} end) || _ <- lists:seq(1,C) ],
    R = [ receive {P,X} -> X end || P <- Ps ], N = lists:sum([A||{A,_}<-R]), Rs = lists:sum([A||{_,A}<-R]),
    W = (now_ns()-T0)/1.0e9, P = atom_to_list(V)++(if Re -> ",session-reuse"; true -> ",full" end)++",mutual,clients="++integer_to_list(C),
    Rs =< N orelse exit(e4),
    emit("e4",P,"rate",N/W,"hs/s"), emit("e4",P,"cpu_per_million",(cpu(ospid())-C0+cpu(SP)-S00)/N*1.0e6,"cpu_s/1e6").
e4cli(Port,Opts,End,N,R) -> case now_ns() >= End of true -> {N,R}; false -> {ok,S} = ssl:connect({127,0,0,1},Port,Opts,5000), {ok,_} = ssl:recv(S,0,5000), I = case ssl:connection_information(S,[session_resumption]) of {ok,[{session_resumption,true}]} -> 1; _ -> 0 end, ssl:close(S), e4cli(Port,Opts,End,N+1,R+I) end.

%% ---------- in-process
local([What]) ->
    case What of e1a -> e1("E1a"); e1b -> e1b("E1b"); e2a -> e2("E2a"); e2b -> e2b("E2b"); {e3,Callers} -> e3(Callers) end, halt(0).
cnt(N,P) -> cnt(0,N,P).
cnt(N,N,P) -> P ! {self(),done};
cnt(I,N,P) -> receive inc -> cnt(I+1,N,P) end.
e1(Wl) -> bg0(), N = 5000000, Me = self(), Q = spawn(fun() -> cnt(N,Me) end), T0 = now_ns(), C0 = cpu(ospid()), sndn(Q,N), receive {Q,done} -> ok end, W = now_ns()-T0,
    emit(Wl,"1 producer 1 process","rate",N/W*1.0e9,"items/s"), emit(Wl,"1 producer 1 process","cpu_per_million",(cpu(ospid())-C0)*1.0e6/N,"cpu_s/1e6").
sndn(_,0) -> ok;
sndn(Q,N) -> Q ! inc, sndn(Q,N-1).
e1b(Wl) -> bg0(), N = 5000000, Q = 1000, K = N div Q, Me = self(), Ps = list_to_tuple([ spawn(fun() -> cnt(K,Me) end) || _ <- lists:seq(1,Q) ]),
    T0 = now_ns(), C0 = cpu(ospid()), [ spawn(fun() -> rrsend(Ps,Q,Q,K div 2) end) || _ <- [1,2] ], [ receive {P,done} -> ok end || P <- tuple_to_list(Ps) ], W = now_ns()-T0,
    emit(Wl,"2 producers 1000 processes","rate",N/W*1.0e9,"items/s"), emit(Wl,"2 producers 1000 processes","cpu_per_million",(cpu(ospid())-C0)*1.0e6/N,"cpu_s/1e6").
rrsend(_,_,_,0) -> ok;
rrsend(Ps,Q,0,K) -> rrsend(Ps,Q,Q,K-1);
rrsend(Ps,Q,I,K) -> element(I,Ps) ! inc, rrsend(Ps,Q,I-1,K).
pong() -> receive {P,ping} -> P ! pong, pong(); stop -> ok end.
ping(_,0) -> ok;
ping(P,N) -> P ! {self(),ping}, receive pong -> ping(P,N-1) end.
e2(Wl) -> bg0(), P = spawn(fun pong/0), Me = self(), spawn(fun() -> ping(P,10000), T0 = now_ns(), ping(P,500000), Me ! {w,now_ns()-T0} end), receive {w,W} -> emit(Wl,"ping-pong 2 processes","rate",500000/W*1.0e9,"roundtrips/s") end.
e2b(Wl) -> bg0(), Q = 10000, K = 500, N = Q*K, Me = self(), Ps = list_to_tuple([ spawn(fun() -> cnt(K,Me) end) || _ <- lists:seq(1,Q) ]),
    T0 = now_ns(), [ spawn(fun() -> rrsend(Ps,Q,Q,K div 2) end) || _ <- [1,2] ], [ receive {P,done} -> ok end || P <- tuple_to_list(Ps) ], W = now_ns()-T0,
    emit(Wl,"10000 actors x500 msgs","rate",N/W*1.0e9,"msgs/s").
e3(Callers) -> bg0(), {ok,G} = gen_server:start(?MODULE,[],[]), Each = 500000 div Callers, Me = self(), C0 = cpu(ospid()), T0 = now_ns(),
    Ps = [ spawn(fun() -> gcall(G,Each), Me ! {self(),ok} end) || _ <- lists:seq(1,Callers) ], [ receive {P,ok} -> ok end || P <- Ps ], W = now_ns()-T0, N = Each*Callers,
    Wl = "E3-"++integer_to_list(Callers), emit(Wl,"gen_server:call","rate",N/W*1.0e9,"cycles/s"), emit(Wl,"gen_server:call","cpu_per_million",(cpu(ospid())-C0)*1.0e6/N,"cpu_s/1e6").
gcall(_,0) -> ok;
gcall(G,N) -> gen_server:call(G,sync), gcall(G,N-1).
