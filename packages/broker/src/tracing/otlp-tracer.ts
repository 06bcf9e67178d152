// Exports traces of requests by OTLP over HTTP through the OpenTelemetry SDK. The queue is bounded; spans above it are dropped.

import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, type SpanExporter, TraceIdRatioBasedSampler, TracerProvider } from '@opentelemetry/sdk-trace'
import { parseTraceparent, type RequestTracer, type TraceSettings } from './request-tracer.ts'

const exportMs = 10_000
const scheduledDelayMillis = 2_000
const maxQueueSize = 2_048
/** A collector that is away is named in the log at this interval. */
const warnEveryMs = 60_000
const closeMs = 3_000

export function createOtlpTracer(deps: { clock: Clock; log: Log; version: string }, settings: TraceSettings): RequestTracer {
  const { version } = deps
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': settings.service_name, 'service.version': version }),
    sampler: new TraceIdRatioBasedSampler(settings.sampling_rate),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: withWarnings(deps, new OTLPTraceExporter({ url: toTracesUrl(settings.otlp_endpoint), timeoutMillis: exportMs })),
        maxQueueSize,
        scheduledDelayMillis,
        exportTimeoutMillis: exportMs,
      }),
    ],
  })
  const tracer = provider.getTracer('brokkr-broker', version)
  return {
    start: ({ method, route, requestId, traceparent }) => {
      const parent = parseTraceparent(traceparent)
      const context = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
      const attributes = { 'http.request.method': method, 'http.route': route, 'brokkr.request_id': requestId }
      const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, context)
      if (!span.isRecording()) return null
      return {
        end: (status) => {
          span.setAttribute('http.response.status_code', status)
          if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
          span.end()
        },
      }
    },
    close: async () => {
      await Promise.race([provider.shutdown(), deps.clock.sleep(closeMs)]).catch((error: unknown) => {
        deps.log.warn('last traces not exported', { error: error as Error })
      })
    },
  }
}

/** The endpoint is that of the collector; a path of its own is kept. */
export const toTracesUrl = (endpoint: string): string => `${endpoint.replace(/\/+$/, '').replace(/\/v1\/traces$/, '')}/v1/traces`

function withWarnings({ clock, log }: { clock: Clock; log: Log }, exporter: SpanExporter): SpanExporter {
  let warnedMs = Number.NEGATIVE_INFINITY
  return {
    export: (spans, onResult) =>
      exporter.export(spans, (result) => {
        if (result.error !== undefined && clock.monotonicMs() - warnedMs >= warnEveryMs) {
          warnedMs = clock.monotonicMs()
          log.warn('traces not exported', { spans: spans.length, why: result.error.message })
        }
        onResult(result)
      }),
    shutdown: () => exporter.shutdown(),
  }
}
