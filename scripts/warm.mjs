// npm run warm: fills every cache (packages, Kubernetes, kubectl for the comparisons) and prints the result.
import { prepareParts } from './parts.mjs'
import { forwardSignals } from './run-program.mjs'
import { setUp } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'

forwardSignals()
try {
  const steps = createSteps({ plain: process.argv.includes('--plain') })
  const node = await setUp(steps)
  const missing = await prepareParts(steps, node, ['kubernetes', 'kubectl'])
  process.stdout.write(missing.length === 0 ? 'everything is warm\n' : `not ready: ${missing.join(', ')}\n`)
  process.exitCode = missing.length === 0 ? 0 : 1
} catch (error) {
  tellFailure(error)
  process.exitCode = 1
}
