// Traces of requests, as the HTTP server sees them. Their export is in otlp-tracer.ts, which is loaded only if traces are enabled.
export interface RequestTracer {
  /** Null if the request is not sampled. */
  start(request: TracedRequest): RequestSpan | null
  /** Exports what is queued. */
  close(): Promise<void>
}
export interface TracedRequest {
  readonly method: string
  /** Pattern of the path; ids and queries are no part of a trace. */
  readonly route: string
  readonly requestId: string
  /** W3C trace context of the caller. */
  readonly traceparent: string | undefined
}
export interface RequestSpan {
  end(status: number): void
}

export interface TraceSettings {
  readonly enabled: boolean
  readonly otlp_endpoint: string
  readonly service_name: string
  readonly sampling_rate: number
}
type Overrides = { readonly [K in keyof TraceSettings]: TraceSettings[K] | null }

/** Settings of the broker: those of `telemetry.broker` before those of `telemetry`. Pure. */
export const toTraceSettings = ({ broker, ...all }: TraceSettings & { readonly broker: Overrides }): TraceSettings => ({
  enabled: broker.enabled ?? all.enabled,
  otlp_endpoint: broker.otlp_endpoint ?? all.otlp_endpoint,
  service_name: broker.service_name ?? all.service_name,
  sampling_rate: broker.sampling_rate ?? all.sampling_rate,
})

export interface ParentContext {
  readonly traceId: string
  readonly spanId: string
  readonly traceFlags: number
  readonly isRemote: true
}

/** Pure. Null for a header that is absent or invalid: the request then starts a trace. */
export function parseTraceparent(header: string | undefined): ParentContext | null {
  const [, traceId, spanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(header ?? '') ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return null
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}
