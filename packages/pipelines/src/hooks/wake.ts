// POST /wake/{namespace}/{pipeline}: a hint that something changed. The body is ignored.
import type { HookAnswer, HookRequest } from './answer.ts'
import { authenticate, hookSecretOf } from './authenticate.ts'
import type { HooksContext } from './deps.ts'
import { requirePipeline } from './lookup.ts'
import { requestPass } from './writes.ts'

export async function handleWake(
  context: HooksContext,
  request: HookRequest,
  [namespace = '', name = '']: readonly string[],
): Promise<HookAnswer> {
  const pipeline = await requirePipeline(context, { namespace, name }, request.signal)
  await authenticate(context, request, {
    access: { verb: 'promote', resource: 'pipelines', namespace, name },
    kind: 'hint',
    pipeline,
    secretName: pipeline.spec.ok ? hookSecretOf(pipeline.spec.spec, null) : null,
  })
  await requestPass(context.kube, pipeline, context.clock.now(), request.signal)
  context.wake(pipeline.key)
  return { status: 202 }
}
