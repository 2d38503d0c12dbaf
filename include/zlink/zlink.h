/*
 * zlink/zlink.h: everything that an application module includes.
 */
#ifndef ZLINK_ZLINK_H
#define ZLINK_ZLINK_H

#include <zlink/call.h>
#include <zlink/call_options.h>
#include <zlink/cancellation.h>
#include <zlink/channel.h>
#include <zlink/filter.h>
#include <zlink/handler.h>
#include <zlink/log.h>
#include <zlink/message.h>
#include <zlink/module.h>
#include <zlink/node_handlers.h>
#include <zlink/spot.h>
#include <zlink/status.h>
#include <zlink/stop_token.h>
#include <zlink/timer.h>
#include <zlink/turn.h>
#include <zlink/work.h>

#endif
