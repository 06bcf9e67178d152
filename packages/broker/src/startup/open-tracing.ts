// Opens the export of traces, if it is enabled. The SDK is loaded only then.
import { type RequestTracer, toTraceSettings } from '../tracing/request-tracer.ts'
import { version } from '../version.ts'
import type { StartContext } from './context.ts'

export async function openTracing({ config, clock, log, onClose }: StartContext): Promise<RequestTracer | null> {
  const settings = toTraceSettings(config.telemetry)
  if (!settings.enabled) return null
  const { createOtlpTracer } = await import('../tracing/otlp-tracer.ts')
  const tracer = createOtlpTracer({ clock, log, version }, settings)
  onClose('traces', () => tracer.close())
  return tracer
}
