{{/* The configuration file: config and the settings that other values decide. */}}
{{- define "pipelines.config" -}}
{{- $managed := dict "metrics_port" 8080 "health_probe_port" 8081 "promotion_hook_port" 8082 "bind_host" "0.0.0.0" "namespace" .Release.Namespace "git_cache_dir" "/var/cache/brokkr" "install_crds" false -}}
{{- if .Values.tls.existingSecret -}}
{{- $managed = merge $managed (dict "tls_cert_file" "/etc/brokkr/tls/tls.crt" "tls_key_file" "/etc/brokkr/tls/tls.key") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy (.Values.config | default dict)) (dict "pipelines" $managed) | toJson -}}
{{- end }}
